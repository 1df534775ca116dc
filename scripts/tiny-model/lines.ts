/**
 * How well a model computes the lines of its traces, which shows what merging operations costs in accuracy.
 */
import { mod10 } from '../../src/data/tiny/task';

export interface LineCount {
  correct: number;
  total: number;
}

const LINE = /^(\d(?:[+-]\d)+)=(\d)/;

/**
 * Counts correct first results by the number of operations on the line (index 0 for one). Repeats after `,
 * wait` are not counted.
 */
export function countLines(completions: readonly string[]): LineCount[] {
  const counts: LineCount[] = [];
  for (const text of completions.flatMap((completion) => completion.split('\n'))) {
    const line = LINE.exec(text);
    if (line === null) continue;
    const terms = line[1]!.match(/[+-]?\d/g)!.map(Number);
    const count = (counts[terms.length - 2] ??= { correct: 0, total: 0 });
    count.total++;
    if (mod10(terms.reduce((sum, term) => sum + term, 0)) === Number(line[2])) count.correct++;
  }
  return Array.from(counts, (count) => count ?? { correct: 0, total: 0 });
}
