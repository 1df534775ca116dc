/** What a model will not see of its prompts: characters without a token, messages that its chat template leaves out. */
import { badInput, errorMessage } from '../base/errors';
import { Pace } from '../base/pace';
import { grouped } from '../base/text';
import type { ChatMessage, Problem } from '../base/types';
import type { Tokenizer } from './index';
import { DEFAULT_PROMPT_TEMPLATE, promptMessages, type PromptOptions } from './prompt';

/** Generated data has no end, so only this many problems of it are looked at. */
const MOST_GENERATED = 512;

/** Adds up the characters lost of texts that people wrote: the chat template is the model's own. */
export class LostCharacters {
  private count = 0;
  private first: string | null = null;

  constructor(
    private readonly tokenizer: Pick<Tokenizer, 'findLost'>,
    /** What the texts are, for the sentence. */
    private readonly what = 'prompts',
  ) {}

  add(text: string): void {
    const lost = this.tokenizer.findLost?.(text) ?? null;
    if (lost === null) return;
    this.count += lost.count;
    this.first ??= lost.first;
  }

  /** One sentence, or none when nothing was lost. */
  sentences(): string[] {
    if (this.first === null) return [];
    const one = this.count === 1;
    const which = `${grouped(this.count)} ${one ? 'character' : 'characters'} of the ${this.what}`;
    return [
      `${which} ${one ? 'is' : 'are'} not in this tokenizer, the first is ${JSON.stringify(this.first)}: the model does not see ${one ? 'it' : 'them'}.`,
    ];
  }
}

/** A message of another than the assistant: templates leave out what an assistant thought in earlier turns. */
const isHidden = ({ role, content }: ChatMessage, text: string): boolean =>
  role !== 'assistant' && !text.includes(content.trim());

/** Tries the template on the first chat of each sequence of roles, which is all that templates look at. */
class HiddenMessages {
  private readonly hidden = new Map<string, { role: string; id: string; count: number } | null>();

  constructor(
    private readonly tokenizer: Pick<Tokenizer, 'renderChat'>,
    private readonly enableThinking: boolean,
  ) {}

  add({ id, before }: Problem, messages: readonly ChatMessage[]): void {
    if (before === undefined) return;
    const roles = messages.map(({ role }) => role).join(' ');
    if (!this.hidden.has(roles)) this.hidden.set(roles, this.tried(id, messages));
    const found = this.hidden.get(roles);
    if (found) found.count++;
  }

  private tried(id: string, messages: readonly ChatMessage[]) {
    const options = { enableThinking: this.enableThinking, addGenerationPrompt: true };
    let text: string;
    try {
      text = this.tokenizer.renderChat(messages, options);
    } catch (cause) {
      throw badInput(`The messages of problem ${id} cannot be used: ${errorMessage(cause)}`, cause);
    }
    const message = messages.find((one) => isHidden(one, text));
    return message === undefined ? null : { role: message.role, id, count: 0 };
  }

  sentences(): string[] {
    return [...this.hidden.values()].flatMap((found) => {
      if (found === null) return [];
      const { role, id, count } = found;
      return [
        `The model's chat template leaves out the ${role} message of problem ${id}, and of ${grouped(count)} in all: the model does not see it.`,
      ];
    });
  }
}

/** Problems, or the first `count` of them. */
export interface PromptSet {
  size: number;
  get(index: number): Problem;
  longestQuestion?: number;
  count?: number;
}

/**
 * One sentence for each fault of the prompts of all these problems. Yields to the event loop.
 * @throws BAD_INPUT when the chat template refuses the messages of a problem; the signal's reason when it aborts
 */
export async function promptFaults(
  tokenizer: Pick<Tokenizer, 'findLost' | 'renderChat'>,
  sets: readonly PromptSet[],
  options: PromptOptions & { signal?: AbortSignal } = {},
): Promise<string[]> {
  const { promptTemplate = DEFAULT_PROMPT_TEMPLATE, enableThinking = true, signal } = options;
  const lost = new LostCharacters(tokenizer);
  const hidden = new HiddenMessages(tokenizer, enableThinking);
  const pace = new Pace();
  for (const set of sets) {
    const most = set.longestQuestion === undefined ? Infinity : MOST_GENERATED;
    for (let row = 0; row < Math.min(set.count ?? Infinity, set.size, most); row++) {
      const problem = set.get(row);
      const messages = promptMessages(problem, promptTemplate);
      hidden.add(problem, messages);
      for (const { content } of messages) lost.add(content);
      await pace.turn();
      signal?.throwIfAborted();
    }
  }
  return [...hidden.sentences(), ...lost.sentences()];
}
