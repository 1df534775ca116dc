import { AcoerError } from '../errors';
import { renderPrompt } from '../tokenizer';
import type { Prompt } from '../types';
import type { LoopContext } from './context';

/**
 * The next `count` prompts from position `cursor` of the data order, and the position after them. Prompts longer
 * than `maxPromptLength` tokens are passed over.
 */
export function nextPrompts(
  context: LoopContext,
  cursor: number,
  count: number,
): { prompts: Prompt[]; cursor: number } {
  const { config, dataset, order, tokenizer } = context;
  const { promptTemplate, enableThinking, maxPromptLength } = config;
  const prompts: Prompt[] = [];
  let position = cursor;
  let passedOver = 0;
  while (prompts.length < count) {
    const problem = dataset.get(order.rowAt(position));
    const prompt = renderPrompt(tokenizer, problem, position, { promptTemplate, enableThinking });
    position++;
    if (maxPromptLength === null || prompt.ids.length <= maxPromptLength) {
      prompts.push(prompt);
      passedOver = 0;
    } else if (++passedOver >= order.size) {
      throw new AcoerError(
        'BAD_CONFIG',
        `Every prompt of ${dataset.name} has more than maxPromptLength = ${maxPromptLength} tokens; raise it.`,
      );
    }
  }
  return { prompts, cursor: position };
}
