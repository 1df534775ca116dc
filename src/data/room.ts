/** Bounds the memory that problems take: without room on the heap, V8 ends the process. */
import { getHeapStatistics } from 'node:v8';
import { badInput } from '../base/errors';
import { megabytes } from '../base/text';
import type { Problem } from '../base/types';

/** Objects, ids and string headers of a problem, and the entries of maps that are made of its rows later. */
const PROBLEM_BYTES = 400;
const NOT_LATIN1 = /[\u0100-\uffff]/;

/** V8 stores a text with one byte per character when all fit. */
const textBytes = (text: string): number => text.length * (NOT_LATIN1.test(text) ? 2 : 1);

/** Half of what is left of the heap when a data set is opened; the other half is for everything after it. */
export class Room {
  private readonly limit = getHeapStatistics().heap_size_limit;
  private left = (this.limit - getHeapStatistics().used_heap_size) / 2;

  /**
   * @param row its columns as JSON, or null if they are not kept
   * @throws BAD_INPUT when `problem`, from `at`, is one too many
   */
  take({ id, question, before = [], gold }: Problem, row: string | null, at: string): void {
    const texts = [id, question, gold ?? '', row ?? '', ...before.map(({ content }) => content)];
    this.left -= texts.reduce((sum, text) => sum + textBytes(text), PROBLEM_BYTES);
    if (this.left >= 0) return;
    throw badInput(
      `${at}: the problems up to here fill half of the memory that Node may use (${megabytes(this.limit)}); give it more with NODE_OPTIONS=--max-old-space-size=<MB>, or use less data.`,
    );
  }
}
