/**
 * The answer in text without a box: what follows "the final answer is", else "answer:", else "answer", else
 * the last formula or number. Priorities and distances are math_verify's.
 */
import type { ExtractionTarget } from './options';
import { boxedAnswer } from './boxed';
import { MAX_TAIL_CHARS } from './budget';
import { breaksOff, type Said, saidOf } from './context';
import { formulas, joinFormulas, plainExpressions, plainStrings, type Span } from './segments';

export interface Candidate {
  text: string;
  /** `string`: compared as a plain string. */
  type: ExtractionTarget['type'] | 'boxed';
}

interface Ranked extends Candidate {
  priority: number;
  start: number;
  end: number;
}

/** "The final answer is 5. I hope it is correct." */
const HOPE = 0;
const FINAL = 50;
const COLON = 100;
const ANSWER = 200;
const LINE_START = 250;
const ANYWHERE = 300;
/** The last match of each priority counts, so early ones need not be searched. */
const MAX_ANCHORS = 16;
/** Values without such words: only the last ones are read. */
const MAX_LAST = 16;

/** Candidates, best first. Boxes are looked for in all of `text`, other answers only near its end. */
export function candidates(
  text: string,
  targets: readonly ExtractionTarget[],
  boxes: (text: string) => string | null = (all) => boxedAnswer(all, true),
): Candidate[] {
  const priority = boxPriority(targets);
  const boxed = priority === null ? null : boxes(text);
  const tail = text.slice(-MAX_TAIL_CHARS);
  // Nothing can beat this box, so skip the rest of the text.
  if (boxed !== null && priority === HOPE && !tail.includes('I hope'))
    return [{ text: boxed, type: 'boxed' }];
  const ranked = targets.flatMap((target) => ofTarget(tail, target));
  if (boxed !== null) {
    const end = tail.lastIndexOf('\\boxed');
    ranked.push({ text: boxed, type: 'boxed', priority: priority!, start: 0, end });
  }
  return ranked.sort((a, b) => a.priority - b.priority || b.end - a.end || a.start - b.start);
}

/** The highest priority at which boxes are tried; null when they are not. */
function boxPriority(targets: readonly ExtractionTarget[]): number | null {
  const priorities = targets.flatMap((target) =>
    target.type === 'latex' && target.boxedMatchPriority >= 0 ? [target.boxedMatchPriority] : [],
  );
  return priorities.length === 0 ? null : Math.min(...priorities);
}

function ofTarget(text: string, target: ExtractionTarget): Ranked[] {
  const cut = breaksOff(text);
  // What breaks off has no value; an answer that was given before it has.
  const finished = cut ? lastSentence(text) : text.length;
  const spans = spansOf(text, target).filter((span) => span.end <= finished);
  const said = reader(text, target);
  const rank = (priority: number, span: Said): Ranked => ({ ...span, priority, type: target.type });
  const open = cut || !target.tryExtractWithoutAnchor ? [] : lastSaid(text, spans, target, said);
  return [
    ...anchored(text, spans, target, said).map(([priority, span]) => rank(priority, span)),
    ...open.map((span) => rank(target.type === 'string' && span.start <= 2 ? LINE_START : ANYWHERE, span)),
  ];
}

type Reader = (span: Span) => Said;

/** Each span is read once. */
function reader(text: string, target: ExtractionTarget): Reader {
  const known = new Map<Span, Said>();
  return (span) => {
    const before = known.get(span);
    if (before !== undefined) return before;
    const said = target.type === 'string' ? { ...span, denied: false } : saidOf(text, span, target.type);
    known.set(span, said);
    return said;
  };
}

const lastSentence = (text: string): number =>
  Math.max(0, ...['\n', '. ', '? ', '! '].map((sign) => text.trimEnd().lastIndexOf(sign)));

/** The last values. One that is denied is passed over for another in its sentence; else there is no answer. */
function lastSaid(text: string, spans: readonly Span[], target: ExtractionTarget, said: Reader): Said[] {
  if (target.type === 'string') return spans.map(said);
  const last = spans.slice(-MAX_LAST).map(said);
  const final = last.at(-1);
  if (final === undefined) return [];
  const affirmed = last.filter(({ denied }) => !denied);
  const best = affirmed.at(-1);
  const passed = best !== undefined && !/\n|[.!?]\s/.test(text.slice(best.end, final.start));
  return !final.denied || passed ? affirmed : last;
}

function spansOf(text: string, target: ExtractionTarget): Span[] {
  if (target.type === 'latex')
    return joinFormulas(text, formulas(text)).filter((span) => !/\\(?:boxed|fbox)/.test(span.text));
  if (target.type === 'expr') return plainExpressions(text);
  const spans = plainStrings(text, target.strings);
  return target.lowercase ? spans.map((span) => ({ ...span, text: span.text.toLowerCase() })) : spans;
}

function anchored(
  text: string,
  spans: readonly Span[],
  target: ExtractionTarget,
  said: Reader,
): [number, Said][] {
  const found: [number, Said][] = [];
  for (const final of [...text.matchAll(/final answer/gi)].slice(-MAX_ANCHORS)) {
    const from = final.index + final[0].length;
    for (const is of text.slice(from, from + 104).matchAll(/\sis:?\s*(?:\*\*)?/g)) {
      const at = from + is.index + is[0].length;
      const span = spans.find((one) => Math.abs(one.start - at) <= 1);
      if (span === undefined) continue;
      const hope = /^\$?\.?\s?I hope/.test(text.slice(span.end, span.end + 10));
      found.push([hope ? HOPE : FINAL, said(span)]);
    }
  }
  for (const anchor of [...text.matchAll(/answer(:?)/gi)].slice(-MAX_ANCHORS)) {
    const from = anchor.index + anchor[0].length;
    const after = spans.filter((one) => one.start >= from);
    const near = after.filter((one) => one.start <= from + 50);
    const span = target.type === 'expr' ? numberAfter(text, after, from, said) : affirmed(near, said);
    if (span === undefined) continue;
    if (anchor[1] === ':') found.push([COLON, span]);
    found.push([ANSWER, span]);
  }
  return found;
}

/** The first value that is not denied, else the first. */
function affirmed(spans: readonly Span[], said: Reader): Said | undefined {
  const span = spans.find((one) => !said(one).denied) ?? spans[0];
  return span && said(span);
}

/** The value after the last equals sign near the word "answer", else the first near it, on the same line. */
function numberAfter(text: string, spans: readonly Span[], from: number, said: Reader): Said | undefined {
  const newline = text.indexOf('\n', from);
  const lineEnd = newline < 0 ? text.length : newline;
  const near = spans.filter((span) => span.start <= Math.min(from + 102, lineEnd));
  const equals = near.filter((span) => /=\s*$/.test(text.slice(Math.max(0, span.start - 4), span.start)));
  if (equals.length > 0) return said(equals.at(-1)!);
  const first = near.filter(
    (span) => span.start <= from + 52 && !/^\s*=/.test(text.slice(span.end, span.end + 4)),
  );
  return affirmed(first, said);
}
