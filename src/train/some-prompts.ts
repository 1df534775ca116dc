/** Prompts of a run before it has begun. */
import type { Config } from '../config';
import { renderPrompts } from '../tokenizer';
import type { Inputs } from './inputs';

const GOLDEN_RATIO = 0.618034;

/**
 * `count` places among `size`, one in each of as many stretches of equal length, at another part of each: at equal
 * distances they would see a single kind of row where kinds take turns, as the levels of the embedded tasks do.
 */
export function spreadOver(size: number, count: number): number[] {
  const start = (i: number) => Math.floor((i * size) / count);
  return Array.from(
    { length: count },
    (_, i) => start(i) + Math.floor(((i * GOLDEN_RATIO) % 1) * (start(i + 1) - start(i))),
  );
}

/** Token ids of `count` prompts, or of all there are, spread over the rows. Yields to the event loop. */
export async function somePrompts(
  { promptTemplate, enableThinking }: Config,
  { tokenizer, trainData }: Pick<Inputs, 'tokenizer' | 'trainData'>,
  count: number,
  { skipped = new Set(), signal }: { skipped?: ReadonlySet<number>; signal?: AbortSignal | undefined } = {},
): Promise<Int32Array[]> {
  // Data may have millions of rows, and rarely any that is skipped.
  const rows =
    skipped.size === 0
      ? null
      : Array.from({ length: trainData.size }, (_, i) => i).filter((i) => !skipped.has(i));
  const size = rows?.length ?? trainData.size;
  const places = spreadOver(size, Math.min(count, size));
  const problems = places.map((place) => trainData.get(rows?.[place] ?? place));
  const prompts = await renderPrompts(tokenizer, problems, { promptTemplate, enableThinking, signal });
  return prompts.map(({ ids }) => ids);
}
