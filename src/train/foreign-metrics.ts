/** Metrics of other programs under the names that the monitor reads, and whether they can be judged at all. */
import { AcoerError } from '../base/errors';
import { READ } from '../monitor';
import type { KnownMetrics, MetricName } from '../base/metric-names';

/** Names in the file that stand for ours. */
export interface NamedMetrics {
  accuracy?: string;
  thinking?: string;
}

type Line = Readonly<Record<string, number | undefined>> & { step?: number };

/** Names that TRL logs; a reward's mean has the name of its function. */
const TRL_ACCURACY = 'rewards/accuracy_reward/mean';
const TRL_ACCURACIES = /^rewards\/[^/]*accuracy[^/]*\/mean$/i;
/** Trackers put this before the names of training. */
const PREFIX = /^train\//;

const SHOWN_NAMES = 20;

const bad = (message: string) => new AcoerError('BAD_INPUT', message);

/** All names in the lines, in the order of their first appearance. */
const namesIn = (lines: readonly Line[]): string[] => [
  ...new Set(lines.flatMap((line) => Object.keys(line)).filter((name) => name !== 'step')),
];

function shownNames(names: readonly string[]): string {
  if (names.length === 0) return 'it has no numbers';
  const more = names.length > SHOWN_NAMES ? ` and ${names.length - SHOWN_NAMES} more` : '';
  return `it has ${names.slice(0, SHOWN_NAMES).join(', ')}${more}`;
}

/** The name of the share of right answers, or null. */
function accuracyName(path: string, names: readonly string[], given: string | undefined): string | null {
  if (given !== undefined) return needed(path, names, given, '--accuracy');
  const known = [READ.accuracy, TRL_ACCURACY].find((name) => names.includes(name));
  if (known !== undefined) return known;
  const like = names.filter((name) => TRL_ACCURACIES.test(name));
  if (like.length > 1) throw bad(`${path} has ${like.join(' and ')}: name one of them with --accuracy NAME.`);
  return like[0] ?? null;
}

function needed(path: string, names: readonly string[], name: string, flag: string): string {
  const plain = name.replace(PREFIX, '');
  if (names.includes(plain)) return plain;
  throw bad(`${path} has no ${name} (${flag}); ${shownNames(names)}.`);
}

/** @throws BAD_INPUT for values that are no shares */
function checkShares(path: string, lines: readonly Line[], name: string): void {
  const wrong = lines.find((line) => line[name] !== undefined && !(line[name] >= 0 && line[name] <= 1));
  if (wrong === undefined) return;
  throw bad(
    `${path} has ${name} = ${wrong[name]} in step ${wrong.step}, which is no share of right answers (0 to 1): name another metric with --accuracy NAME.`,
  );
}

/** Lines without names of their own that the monitor reads tell it nothing: evaluations, summaries of a training. */
const tells = (line: KnownMetrics): boolean =>
  Object.values(READ).some((name) => name !== READ.step && name !== READ.tokens && line[name] !== undefined);

/** The steps from one line to the next, as most lines have it: TRL averages over `logging_steps`. */
function usualGap(lines: readonly Line[]): number {
  const counts = new Map<number, number>();
  for (const [i, { step }] of lines.entries()) {
    const gap = step! - (lines[i - 1]?.step ?? 0);
    if (gap > 0) counts.set(gap, (counts.get(gap) ?? 0) + 1);
  }
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? 1;
}

export interface ReadMetrics {
  lines: KnownMetrics[];
  notices: string[];
  /** Steps that each line is about. */
  stepsPerLine: number;
}

/**
 * The lines of a file of metrics under our names. Accuracy may be TRL's accuracy reward, and where thinking is not
 * measured the length of completions stands in for it; both are said.
 * @throws BAD_INPUT when neither accuracy nor thinking can be told
 */
export function namedMetrics(path: string, read: readonly Line[], given: NamedMetrics = {}): ReadMetrics {
  const plain = read.map((line) => {
    const entries = Object.entries(line).map(([name, value]) => [name.replace(PREFIX, ''), value] as const);
    return Object.fromEntries(entries);
  });
  const names = namesIn(plain);
  const accuracy = accuracyName(path, names, given.accuracy);
  const own = names.includes(READ.thinking) ? READ.thinking : null;
  const measured = given.thinking === undefined ? own : needed(path, names, given.thinking, '--thinking');
  const thinking = measured ?? (names.includes(READ.length) ? READ.length : null);
  if (accuracy === null && thinking === null) {
    throw bad(
      `${path} has neither accuracy nor thinking: nothing can be judged; ${shownNames(names)}. Name what they are with --accuracy NAME and --thinking NAME.`,
    );
  }
  if (accuracy !== null) checkShares(path, plain, accuracy);
  const lines = plain.map((line) => renamed(line, accuracy, thinking)).filter(tells);
  const notices: string[] = [];
  if (accuracy !== null && accuracy !== READ.accuracy) notices.push(`${accuracy} is taken as accuracy.`);
  if (measured === null && thinking !== null) {
    notices.push(`No ${READ.thinking}: ${thinking}, which counts the answers too, stands in for it.`);
  } else if (thinking !== null && thinking !== READ.thinking) {
    notices.push(`${thinking} is taken as thinking.`);
  }
  const stepsPerLine = usualGap(lines);
  if (stepsPerLine > 1) {
    notices.push(`Lines are ${stepsPerLine} steps apart: each is taken as the mean of so many batches.`);
  }
  return { lines, notices, stepsPerLine };
}

function renamed(line: Line, accuracy: string | null, thinking: string | null): KnownMetrics {
  const metrics: Partial<Record<MetricName, number>> = { ...(line as KnownMetrics) };
  if (accuracy !== null) metrics[READ.accuracy] = line[accuracy];
  if (thinking !== null) metrics[READ.thinking] = line[thinking];
  // A length that stands in for thinking leaves none for the answer.
  if (thinking === READ.length) delete metrics[READ.length];
  return metrics;
}
