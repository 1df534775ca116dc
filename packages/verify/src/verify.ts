/** Verdicts on completions. Nothing here throws or does I/O, and a count of work bounds every call. */
import type { Verdict } from './types';
import { type Answer, parseAnswer } from './answer';
import { answerRegion, boxedAnswer, boxesOfReference, endsInBox, lastBoxed, lastBoxOrTag } from './boxed';
import { choiceInText, choiceLetter } from './choices';
import { Budget, BudgetExceeded } from './budget';
import { equalAnswers } from './compare';
import { type Candidate, candidates } from './free-text';
import {
  type ExtractionTarget,
  type ParseOptions,
  PRESETS,
  type ResolvedOptions,
  resolveOptions,
  type VerifyOptions,
} from './options';
import { plainCharacters } from './unicode';
import { plainNumbers } from './number-text';
import { taggedAnswer, withoutMarks } from './markup';

/** `answer`: in the boxes after the thinking; `last-box`: in the last box of all text, else in `<answer>`. */
export type AnswerFrom = 'answer' | 'last-box';

/** `open-thinking`: as `answer`, but in unfinished thinking, too, as in the paper's protocol. */
export type AnswerRule = AnswerFrom | 'open-thinking';

const COMPLETIONS: Readonly<Record<AnswerRule, ResolvedOptions>> = {
  answer: { ...PRESETS['math-verify'], extraction: 'boxed' },
  'open-thinking': { ...PRESETS['math-verify'], extraction: 'boxed', openThinking: 'searched' },
  'last-box': { ...PRESETS['math-verify'], extraction: 'last-box' },
};
const LENIENT = { strictLatex: false };

/**
 * Whether `completion` gives the answer `gold`, a reference in LaTeX or plain text. If there is a `</think>`,
 * only the text after the first one counts; thinking that never closes has no answer, and neither has a text
 * that ends inside a box. `extracted` is the text taken for the answer, or null. Statuses:
 * `unparseable`, no answer was found or it could not be parsed; `gold-unparseable`, the reference could not
 * be parsed, so the completion was not judged; `timeout`, the work budget ran out.
 */
export function verifyAnswer(gold: string, completion: string, options?: VerifyOptions): Verdict {
  return verdict(gold, completion, options === undefined ? PRESETS['math-verify'] : resolveOptions(options));
}

/**
 * Like `verifyAnswer`, for training and the paper's protocol: only a complete `\boxed{}` (or `\fbox{}`) is an
 * answer.
 * @param answerFrom where the answer is looked for
 * @param grading what the data set says about judging its answers, and whether the prompt opened `<think>`
 */
export function verifyCompletion(
  text: string,
  gold: string,
  answerFrom: AnswerRule = 'answer',
  grading: Pick<VerifyOptions, 'tolerance' | 'countRepeats' | 'thinkOpened'> = {},
): Verdict {
  return verdict(gold, text, { ...COMPLETIONS[answerFrom], ...grading });
}

/** The format reward's condition: the thinking is closed and the text contains a complete `\boxed{}`. */
export function hasFormat(text: string, thinking: { thinkingClosed: boolean }): boolean {
  return thinking.thinkingClosed && lastBoxed(plainCharacters(text)) !== null;
}

interface Extracted {
  text: string;
  answer: Answer;
  /** Compared as a string (multiple choice). */
  literal: boolean;
  /** The choice named in a sentence. */
  letter?: string;
  /** Found in thinking that never closes. */
  fromOpenThinking?: boolean;
}

interface Reference extends Extracted {
  /** Key of the whole reference, however it was parsed. */
  wholeKey: string;
}

function verdict(gold: string, completion: string, options: ResolvedOptions): Verdict {
  const reference = cachedReference(gold, options);
  const choice = choiceLetter(plainText(gold));
  const found = fromCompletion(completion, options, choice !== null);
  const result = (status: Verdict['status']): Verdict => ({
    correct: status === 'correct',
    status,
    extracted: found?.text ?? null,
    ...(found?.fromOpenThinking === true && { fromOpenThinking: true }),
  });
  if (reference === null) return result('gold-unparseable');
  if (found === null) return result(readable(reference) ? 'unparseable' : 'gold-unparseable');
  if (found.letter !== undefined) return result(found.letter === choice ? 'correct' : 'incorrect');
  if (reference.literal || found.literal) {
    return result(reference.text === found.text ? 'correct' : 'incorrect');
  }
  try {
    const context = { ...options, budget: new Budget() };
    const alike = reference.wholeKey === found.answer.key;
    const equal = alike || equalAnswers(reference.answer, found.answer, context);
    if (equal && allowed(found, options)) return result('correct');
  } catch (error) {
    if (error instanceof BudgetExceeded) return result('timeout');
    throw error;
  }
  if (!readable(reference)) return result('gold-unparseable');
  return result(readable(found) ? 'incorrect' : 'unparseable');
}

function extracted(text: string | null, parse: ParseOptions): Extracted | null {
  return text === null ? null : { text, answer: parseAnswer(text, parse), literal: false };
}

function readable({ answer, literal }: Extracted): boolean {
  return literal || answer.node !== null || answer.words !== null;
}

function allowed(found: Extracted, options: ResolvedOptions): boolean {
  return options.fallbackMode === 'first_match' || found.answer.node !== null;
}

/** Characters and numbers in one spelling, wherever they stand in the text. */
const plainText = (text: string): string => plainNumbers(plainCharacters(text));

/** @param choice whether a choice is asked for */
function fromCompletion(completion: string, options: ResolvedOptions, choice: boolean): Extracted | null {
  if (options.extraction === 'last-box') {
    return extracted(lastBoxOrTag(plainText(completion)), options.parse);
  }
  const { text, open } = answerRegion(completion, options.thinkOpened);
  if (open && options.openThinking === 'none') return null;
  const region = plainText(text);
  if (endsInBox(region)) return null;
  const found = fromRegion(region, options, choice);
  return found === null ? null : { ...found, fromOpenThinking: open };
}

function fromRegion(region: string, options: ResolvedOptions, choice: boolean): Extracted | null {
  if (typeof options.extraction === 'string') return extracted(boxedAnswer(region, false), options.parse);
  if (BOX.test(region))
    return best(candidates(region, options.extraction), options) ?? whole(region, options);
  const tagged = taggedAnswer(region);
  const text = withoutMarks(tagged ?? region);
  const strings = options.extraction.some(({ type }) => type === 'string');
  const letter = choice && !strings ? choiceInText(text) : null;
  if (letter !== null) return { ...extracted(letter, options.parse)!, letter };
  const bare = tagged === null ? null : whole(text, options);
  return bare ?? best(candidates(text, options.extraction), options) ?? whole(text, options);
}

/** A text that is a bare answer and nothing else. */
function whole(region: string, options: ResolvedOptions): Extracted | null {
  const text = region.trim();
  const isSentence = text === '' || text.length > 256 || SENTENCE.test(text);
  if (isSentence || typeof options.extraction === 'string' || !options.extraction.some(takesWhole))
    return null;
  const found = extracted(text, options.parse);
  return found?.answer.node === null ? null : found;
}

function takesWhole(target: ExtractionTarget): boolean {
  return target.type === 'latex' && target.tryExtractWithoutAnchor && target.boxedMatchPriority >= 0;
}

const MAX_TRIED = 8;

/** The first candidate that parses, else the first candidate. */
function best(list: readonly Candidate[], options: ResolvedOptions): Extracted | null {
  let first: Extracted | null = null;
  const tried = options.extractionMode === 'first_match' ? 1 : MAX_TRIED;
  for (const { text, type } of list.slice(0, tried)) {
    const found = { ...extracted(text, options.parse)!, literal: type === 'string' };
    // A box is the answer whether it parses or not.
    if (found.literal || found.answer.node !== null || type === 'boxed') return found;
    first ??= found;
  }
  return first;
}

const BOX = /\\+(?:boxed|fbox)/;
/** Two words in a row: a sentence, not a formula. */
const SENTENCE = /(?<![\\a-zA-Z{])[a-zA-Z]{2,}[,.]?\s+[a-zA-Z]{2,}/;

const TEXT_COMMAND = /\\[a-z]+\s*\{[^{}]*\}/g;

/** The whole reference is the answer, unless it is boxed or a sentence. */
function parseReference(gold: string, options: ResolvedOptions): Extracted {
  const whole = (): Extracted => ({ text: gold.trim(), answer: parseAnswer(gold, LENIENT), literal: false });
  const { extraction } = options;
  if (typeof extraction === 'string') return extracted(boxesOfReference(gold), LENIENT) ?? whole();
  const latex = extraction.some(({ type }) => type === 'latex');
  if (latex && !BOX.test(gold) && !SENTENCE.test(gold.replace(TEXT_COMMAND, ' '))) return whole();
  const lenient: ResolvedOptions = { ...options, parse: LENIENT, extractionMode: 'any_match' };
  return best(candidates(gold, extraction, boxesOfReference), lenient) ?? whole();
}

/** The same reference is judged against many times in a group, a step and a run, so it is parsed once. */
const references = new Map<string, Reference | null>();
const MAX_REFERENCES = 4_096;

function cachedReference(gold: string, options: ResolvedOptions): Reference | null {
  const key = `${JSON.stringify(options.extraction)}\n${gold}`;
  const known = references.get(key);
  if (known !== undefined) return known;
  const plain = plainText(gold);
  const parsed =
    plain.trim() === ''
      ? null
      : { ...parseReference(plain, options), wholeKey: parseAnswer(plain, LENIENT).key };
  if (references.size >= MAX_REFERENCES) references.delete(references.keys().next().value as string);
  references.set(key, parsed);
  return parsed;
}
