/** Answers a benchmark with a model and grades the answers as they end. */
import { abortable } from '../base/abortable';
import { badArgument, needFunction, needMethods, needObject, needSignal } from '../base/border';
import { givenDataset, isEmbeddedTask, type Dataset } from '../data';
import type { KvCacheDtype, Model, Policy } from '../engine/types';
import { isPromise } from '../base/deadline';
import { AcoerError } from '../base/errors';
import { type Grade, gradeMath, type Judgement } from '../judges';
import { streamSeed } from '../base/rng';
import {
  type Completion,
  DecodeTracker,
  type Decoding,
  EngineSampler,
  type Piece,
  sampleChecked,
  type SamplePrompt,
  type SampleProgress,
  SlotLimit,
  windows,
} from '../sampling';
import {
  givenTokenizer,
  measureCompletion,
  promptFaults,
  renderPrompts,
  type Tokenizer,
  usualPromptTemplate,
} from '../tokenizer';
import type { Prompt } from '../base/types';
import { warnOnce } from '../base/warnings';
import { inOrder } from './problems';
import { type EvalRow, type EvalSummary, summarise } from './summary';

/** `temperature` > 0; draws depend only on the seed, the problem's position and the sample's number. */
export type EvalSampling = 'greedy' | { temperature: number; seed: number };

export interface EvalCompletion extends EvalRow {
  prompt: Prompt;
  ids: Int32Array;
  text: string;
  /** Thinking was closed and there is a boxed answer. */
  format: boolean;
}

/** Answers that have ended and all that are wanted, and the tokens of this call. */
export interface EvalProgress extends Decoding {
  done: number;
  total: number;
}

export interface EvalOptions {
  model: Model;
  /** null: the base model. */
  policy: Policy | null;
  tokenizer: Tokenizer;
  dataset: Dataset;
  /** Evaluates the first n problems, or all if there are fewer. */
  n: number;
  sampling: EvalSampling;
  /** Answers per problem. Default 1; greedy answers would all be the same. */
  samples?: number;
  maxNewTokens: number;
  /** What decides whether an answer is right. Default: the paper's protocol, a verified `\\boxed{}`. */
  grade?: Grade;
  /**
   * The user's message, with `{problem}` where the question goes. Default: `{problem}` alone for the embedded model or
   * its task `tiny`; for all others the paper's prompt, "Solve the following math problem. Show your reasoning, then
   * put your final answer in \\boxed{}." before the question.
   */
  promptTemplate?: string;
  /** Default true. */
  enableThinking?: boolean;
  maxSlots?: number;
  kvBytes?: number;
  /** What keys and values are kept in. Default auto: the model's type. */
  kvCacheDtype?: KvCacheDtype;
  /** Most tokens that a step computes beside an answer's last one; answers stay the same. Default 0. */
  numSpeculativeTokens?: number;
  /** Memory ran out; for the rest of the call only this many sequences are decoded together. */
  onFewerSlots?: (slots: number) => void;
  signal?: AbortSignal;
  /** Rows from an interrupted call with the same options; their answers are not generated again. */
  finished?: readonly EvalRow[];
  /** Called as answers end, and a few times a second as tokens are added. */
  onProgress?: (progress: EvalProgress) => void;
  /** A prompt leaves no room for an answer, so its problem counts as unanswered. Called once for each. */
  onNoRoom?: (prompt: Prompt) => void;
  /**
   * Told what the model will not see of the prompts: characters without a token, messages that its chat template leaves
   * out. Default: a warning of the process, once.
   */
  onWarning?: (message: string) => void;
  /** Called as each completion ends, in the order they end. */
  onCompletion?: (completion: EvalCompletion) => void;
}

/** A copy: a substring of a completion would keep the whole text in memory. */
const own = (text: string | null): string | null =>
  text === null ? null : Buffer.from(text, 'utf8').toString('utf8');

const promptTemplateOf = ({ promptTemplate, tokenizer, dataset }: EvalOptions): string =>
  promptTemplate ?? usualPromptTemplate(tokenizer, isEmbeddedTask(dataset.name));

type Ended = Omit<Completion, 'prompt' | 'logprobs' | 'entropies'>;

class Evaluator {
  readonly rows: EvalRow[];
  private readonly sampler: EngineSampler;
  private readonly tracker = new DecodeTracker();
  /** Answers of the window that a judge of the user's is still looking at. */
  private judging: Promise<void>[] = [];

  constructor(
    private readonly options: EvalOptions,
    private readonly total: number,
  ) {
    this.rows = [...(options.finished ?? [])];
    const { model, policy, tokenizer } = options;
    const slots = new SlotLimit(options.maxSlots, options.onFewerSlots);
    this.sampler = new EngineSampler({ model, policy, tokenizer, slots: () => slots });
  }

  async window(pieces: readonly Piece[]): Promise<void> {
    const { model, tokenizer, dataset, enableThinking } = this.options;
    const promptTemplate = promptTemplateOf(this.options);
    const { signal, kvBytes, kvCacheDtype, numSpeculativeTokens, sampling } = this.options;
    const problems = pieces.map(({ index }) => dataset.get(index));
    const indexOf = (position: number) => pieces[position]!.index;
    const prompts = await renderPrompts(tokenizer, problems, { promptTemplate, enableThinking, indexOf });
    const asked: { piece: Piece; prompt: Prompt }[] = [];
    for (const [i, prompt] of prompts.entries()) {
      const piece = pieces[i]!;
      if (prompt.ids.length < model.info.maxPositions) asked.push({ piece, prompt });
      else this.addUnanswered(prompt, piece);
    }
    if (asked.length === 0) return this.allJudged();
    const wanted = asked.map(({ piece, prompt }) => this.wanted(piece, prompt));
    const settings = {
      sampling: { temperature: sampling === 'greedy' ? 0 : sampling.temperature },
      stopIds: Int32Array.from(tokenizer.eosIds),
      signal,
      kvBytes,
      kvCacheDtype,
      numSpeculativeTokens,
      onProgress: (progress: SampleProgress) => {
        if (this.tracker.report(progress)) this.tell();
      },
    };
    this.tracker.begin(asked.map(({ prompt }) => prompt));
    const nameOf = (prompt: number, sample: number) => {
      const { index, problem } = asked[prompt]!.prompt;
      return `sample ${sample} of problem ${index} (${problem.id})`;
    };
    const border = { tokenizer, vocabSize: model.info.vocabSize, nameOf };
    await sampleChecked(this.sampler, wanted, settings, border, (completion) => {
      if (completion.finish === 'cancelled') return;
      const { prompt, sample, ids } = completion;
      this.tracker.ended({ prompt, sample, tokens: ids.length });
      this.add(asked[prompt]!.prompt, completion);
    });
    await this.allJudged();
  }

  private async allJudged(): Promise<void> {
    const { signal } = this.options;
    await abortable(Promise.all(this.judging), signal).catch((error: unknown) => {
      // The answers that are not judged are missing, which the caller reports.
      if (signal?.aborted !== true) throw error;
    });
    this.judging = [];
  }

  private tell(): void {
    const { total, rows, tracker } = this;
    this.options.onProgress?.({ done: rows.length, total, ...tracker.decoding });
  }

  /** Counts as truncated before the first token, so that one long prompt does not fail a whole benchmark. */
  private addUnanswered(prompt: Prompt, piece: Piece): void {
    if (piece.firstSample === 0) this.options.onNoRoom?.(prompt);
    const ids = new Int32Array();
    const nothing = measureCompletion(ids, this.options.tokenizer, prompt.thinkOpened);
    for (let i = 0; i < piece.numSamples; i++) {
      this.add(prompt, { ...nothing, ids, sample: piece.firstSample + i, finish: 'length', text: '' });
    }
  }

  private wanted({ index, firstSample, numSamples }: Piece, { ids, thinkOpened }: Prompt): SamplePrompt {
    const { model, sampling, maxNewTokens } = this.options;
    return {
      ids,
      thinkOpened,
      numSamples,
      firstSample,
      seed: sampling === 'greedy' ? 0n : streamSeed(sampling.seed, 'eval', index),
      maxNewTokens: Math.min(maxNewTokens, model.info.maxPositions - ids.length),
    };
  }

  /** The judge runs on this thread, in a fraction of a millisecond, unless it is a user's. */
  private add(prompt: Prompt, completion: Ended): void {
    const { grade = gradeMath } = this.options;
    const judged = grade({ ...completion, thinkOpened: prompt.thinkOpened }, prompt.problem);
    if (!isPromise(judged)) return this.addJudged(prompt, completion, judged);
    const work = judged.then((judgement) => this.addJudged(prompt, completion, judgement));
    // Awaited at the end of the window: until then a failure must not count as unhandled.
    work.catch(() => undefined);
    this.judging.push(work);
  }

  private addJudged(prompt: Prompt, completion: Ended, { verdict, format }: Judgement): void {
    const { ids, text, sample, finish, thinkingTokens, thinkingClosed, laterThinkingTokens, answerTokens } =
      completion;
    const thinking = { thinkingTokens, thinkingClosed, laterThinkingTokens, answerTokens };
    const row: EvalRow = {
      index: prompt.index,
      sample,
      problemId: prompt.problem.id,
      gold: prompt.problem.gold,
      level: prompt.problem.level,
      verdict: { ...verdict, extracted: own(verdict.extracted) },
      ...thinking,
      totalTokens: ids.length,
      truncated: finish === 'length',
    };
    this.rows.push(row);
    this.options.onCompletion?.({ ...row, prompt, ids, text, format });
    this.tell();
  }
}

/** @throws BAD_ARGUMENT naming the option that is not what it must be */
function givenOptions(options: EvalOptions): EvalOptions {
  needObject('the options', options);
  const { model, policy, tokenizer, dataset, sampling, maxNewTokens, signal, grade } = options;
  needMethods('model', model, ['generate']);
  if (policy !== null) needObject('policy', policy);
  if (sampling !== 'greedy') {
    needObject('sampling', sampling);
    if (!(sampling.temperature > 0))
      throw badArgument('sampling.temperature', 'a number above 0', sampling.temperature);
    if (!Number.isSafeInteger(sampling.seed))
      throw badArgument('sampling.seed', 'a whole number', sampling.seed);
  }
  if (!Number.isInteger(maxNewTokens) || maxNewTokens < 1) {
    throw badArgument('maxNewTokens', 'a whole number of at least 1', maxNewTokens);
  }
  needSignal('signal', signal);
  if (grade !== undefined) needFunction('grade', grade);
  return {
    ...options,
    tokenizer: givenTokenizer('tokenizer', tokenizer),
    dataset: givenDataset('dataset', dataset),
  };
}

/** What an evaluation asks for. */
export interface Asked {
  options: EvalOptions;
  problems: number;
  /** Of each problem. */
  samples: number;
}

/** Checks the options, and warns of what the model will not see of the prompts. @throws BAD_ARGUMENT */
export async function askedBy(given: EvalOptions): Promise<Asked> {
  const options = givenOptions(given);
  const { n, dataset, samples = 1 } = options;
  const problems = Math.min(n, dataset.size);
  if (!Number.isInteger(problems) || problems < 1) {
    throw new AcoerError('BAD_ARGUMENT', `evaluate needs n >= 1, not ${n}`);
  }
  if (!Number.isInteger(samples) || samples < 1) {
    throw new AcoerError('BAD_ARGUMENT', `evaluate needs samples >= 1, not ${samples}`);
  }
  const { tokenizer, enableThinking, onWarning = warnOnce } = options;
  const asked = { promptTemplate: promptTemplateOf(options), enableThinking };
  const faults = await promptFaults(tokenizer, [{ ...dataset, count: problems }], asked);
  faults.forEach(onWarning);
  return { options, problems, samples };
}

/** Whether an answer is among `rows`. */
export function isAmong(rows: readonly EvalRow[]): (index: number, sample: number) => boolean {
  const keyOf = (index: number, sample: number): string => `${index} ${sample}`;
  const done = new Set(rows.map(({ index, sample }) => keyOf(index, sample)));
  return (index, sample) => done.has(keyOf(index, sample));
}

/**
 * Answers all but what `isLeftOut` names.
 * @returns the rows of `finished` and of what has ended when the signal fires
 */
export async function answerAsked(
  { options, problems, samples }: Asked,
  isLeftOut: (index: number, sample: number) => boolean,
): Promise<EvalRow[]> {
  const evaluator = new Evaluator(options, problems * samples);
  for await (const pieces of windows(new Array(problems).keys(), samples, isLeftOut)) {
    await evaluator.window(pieces);
    if (options.signal?.aborted === true) break;
  }
  return evaluator.rows;
}

/** The rows in the order of problems and samples. @throws CANCELLED if some are missing */
export function allOf({ problems, samples }: Asked, rows: EvalRow[]): EvalRow[] {
  const total = problems * samples;
  if (rows.length === total) return rows.sort(inOrder);
  throw new AcoerError('CANCELLED', `Evaluation stopped after ${rows.length} of ${total} answers`);
}

/**
 * The rows of all answers in the order of problems and samples. Texts go only to `onCompletion`, so memory
 * does not grow with their lengths.
 * @throws CANCELLED if `signal` fires before every problem is answered
 */
export async function answerProblems(given: EvalOptions): Promise<EvalRow[]> {
  const asked = await askedBy(given);
  return allOf(asked, await answerAsked(asked, isAmong(asked.options.finished ?? [])));
}

/** The summary of `answerProblems`. */
export async function evaluate(options: EvalOptions): Promise<EvalSummary> {
  return summarise(await answerProblems(options));
}
