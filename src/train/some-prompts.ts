/** Prompts of a run before it has begun. */
import type { Config } from '../config';
import { renderPrompts } from '../tokenizer';
import type { Inputs } from './inputs';

/** Token ids of `count` prompts, or of all there are, spread evenly over the rows. Yields to the event loop. */
export async function somePrompts(
  { promptTemplate, enableThinking }: Config,
  { tokenizer, trainData }: Pick<Inputs, 'tokenizer' | 'trainData'>,
  count: number,
  { skipped, signal }: { skipped?: ReadonlySet<number>; signal?: AbortSignal | undefined } = {},
): Promise<Int32Array[]> {
  const rows = Array.from({ length: trainData.size }, (_, i) => i).filter((i) => skipped?.has(i) !== true);
  const length = Math.min(count, rows.length);
  const problems = Array.from({ length }, (_, i) =>
    trainData.get(rows[Math.floor((i * rows.length) / length)]!),
  );
  const prompts = await renderPrompts(tokenizer, problems, { promptTemplate, enableThinking, signal });
  return prompts.map(({ ids }) => ids);
}
