import { AcoerError, badUsage } from '../base/errors';
import type { ChatMessage, Problem, Prompt } from '../base/types';
import type { Tokenizer } from './index';
import { Pace } from '../base/pace';
import { thinkLeftOpen } from './thinking';

const PLACEHOLDER = '{problem}';

/** The user's turn; `{problem}` is replaced by the question. The default is the authors' training prompt. */
export const DEFAULT_PROMPT_TEMPLATE =
  'Solve the following math problem. Show your reasoning, then put your final answer in \\boxed{}.\n\n{problem}';

/** SHA-256 of the embedded model's tokenizer.json. */
export const EMBEDDED_TOKENIZER = 'b1d4d2a6c5520e918c27f3e02ccc19417779921771f8a8de23874416e83ce14d';

/** For the embedded model and its tasks, which know no words: the question as it is. */
export function usualPromptTemplate(
  { fingerprints }: Pick<Tokenizer, 'fingerprints'>,
  embeddedTask: boolean,
): string {
  const embedded = fingerprints?.files['tokenizer.json'] === EMBEDDED_TOKENIZER;
  return embedded || embeddedTask ? PLACEHOLDER : DEFAULT_PROMPT_TEMPLATE;
}

export interface PromptOptions {
  /** Text with `{problem}`. Default DEFAULT_PROMPT_TEMPLATE. */
  promptTemplate?: string;
  /** Default true. */
  enableThinking?: boolean;
}

/** Replaces every `{problem}`. Throws BAD_CONFIG when there is none, since every prompt would be the same. */
export function fillTemplate(template: string, question: string): string {
  if (!template.includes(PLACEHOLDER)) {
    throw badUsage(
      `promptTemplate must contain ${PLACEHOLDER}, where each question goes; it is ${JSON.stringify(template)}`,
    );
  }
  return template.split(PLACEHOLDER).join(question);
}

/** What the model is given: the messages before the question in the data, and the question in the template. */
export const promptMessages = (problem: Problem, promptTemplate: string): ChatMessage[] => [
  ...(problem.before ?? []),
  { role: 'user', content: fillTemplate(promptTemplate, problem.question) },
];

/** A chat in the model's template, up to where the assistant's turn begins. */
export interface RenderedChat {
  text: string;
  /** The end of it: what the template adds for the assistant. A message may itself quote `<think>`. */
  opening: string;
}

/** @throws BAD_INPUT for messages that the template refuses */
export function renderForAnswer(
  tokenizer: Pick<Tokenizer, 'renderChat'>,
  messages: readonly ChatMessage[],
  enableThinking: boolean,
): RenderedChat {
  const turns = tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt: false });
  const text = tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt: true });
  return { text, opening: text.startsWith(turns) ? text.slice(turns.length) : text };
}

/** The prompt in tokens, and whether the template has opened `<think>`. */
export const promptTokens = (
  tokenizer: Tokenizer,
  { text, opening }: RenderedChat,
): Pick<Prompt, 'ids' | 'thinkOpened'> => ({
  ids: tokenizer.encode(text),
  thinkOpened: thinkLeftOpen(tokenizer.encode(opening), tokenizer),
});

/**
 * A problem in the model's chat template, ready for the assistant's turn.
 * @param index position in the run's data order: the prompt's key in every random stream
 */
export function renderPrompt(
  tokenizer: Tokenizer,
  problem: Problem,
  index: number,
  options: PromptOptions = {},
): Prompt {
  const enableThinking = options.enableThinking ?? true;
  const messages = promptMessages(problem, options.promptTemplate ?? DEFAULT_PROMPT_TEMPLATE);
  const rendered = renderForAnswer(tokenizer, messages, enableThinking);
  return { problem, index, text: rendered.text, ...promptTokens(tokenizer, rendered) };
}

/**
 * Calls `renderPrompt` on every problem without blocking the event loop.
 * @param options.indexOf index of the problem at a position; defaults to the position
 * @throws CANCELLED when the signal fires
 */
export async function renderPrompts(
  tokenizer: Tokenizer,
  problems: Iterable<Problem>,
  options: PromptOptions & { signal?: AbortSignal; indexOf?: (position: number) => number } = {},
): Promise<Prompt[]> {
  const { indexOf = (position: number) => position } = options;
  const pace = new Pace();
  const prompts: Prompt[] = [];
  for (const problem of problems) {
    prompts.push(renderPrompt(tokenizer, problem, indexOf(prompts.length), options));
    await pace.turn();
    if (options.signal?.aborted === true) {
      throw new AcoerError('CANCELLED', `Stopped after ${prompts.length} prompts`);
    }
  }
  return prompts;
}
