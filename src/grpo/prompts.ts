import { badUsage } from '../base/errors';
import { Pace } from '../base/pace';
import { renderPrompt } from '../tokenizer';
import type { Prompt } from '../base/types';
import type { StepContext } from './context';

/** The part of the context that choosing prompts needs. */
export type PromptContext = Pick<
  StepContext,
  'config' | 'dataset' | 'order' | 'tokenizer' | 'promptLimit' | 'skippedRows' | 'signal' | 'watch'
>;

/** The prompt at a position of the data order, however long it is. */
export function promptAt(
  { config: { promptTemplate, enableThinking }, dataset, order, tokenizer }: PromptContext,
  position: number,
): Prompt {
  const problem = dataset.get(order.rowAt(position));
  return renderPrompt(tokenizer, problem, position, { promptTemplate, enableThinking });
}

/**
 * The next `count` prompts from position `cursor` of the data order, and the position after them. Prompts of
 * more than `promptLimit` tokens are skipped; rows known to have such prompts are not even rendered. Yields
 * to the event loop; every row is progress for the watchdog.
 */
export async function nextPrompts(
  context: PromptContext,
  cursor: number,
  count: number,
): Promise<{ prompts: Prompt[]; cursor: number }> {
  const { dataset, order, promptLimit, skippedRows, signal, watch } = context;
  const prompts: Prompt[] = [];
  const pace = new Pace();
  let position = cursor;
  for (; prompts.length < count; position++) {
    if (skippedRows.size >= order.size) {
      const message = `Every prompt of ${dataset.name} has more than ${promptLimit} tokens.`;
      throw badUsage(message);
    }
    const row = order.rowAt(position);
    if (skippedRows.has(row)) continue;
    await pace.turn();
    signal?.throwIfAborted();
    watch.progress();
    const prompt = promptAt(context, position);
    if (prompt.ids.length <= promptLimit) prompts.push(prompt);
    else skippedRows.add(row);
  }
  return { prompts, cursor: position };
}
