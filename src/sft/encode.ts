/** A lesson as token ids: the prompt, which is given, and the completion, which is learnt. */
import type { Tokens } from '../base/packing';
import { fillTemplate, type Tokenizer } from '../tokenizer';
import { badInput } from '../base/errors';
import type { ChatMessage } from '../base/types';
import type { Lesson } from './rows';

export interface EncodeOptions {
  promptTemplate: string;
  enableThinking: boolean;
}

const OPEN = '<think>';
const CLOSE = '</think>';

/** Stands for a message that no template takes apart. */
const STAND_IN = 'acoer-stand-in';

/** What the template writes after an assistant's last message: the end-of-turn token, and what follows it. */
function endOfTurn(tokenizer: Tokenizer, prompt: readonly ChatMessage[], enableThinking: boolean): string {
  const messages = [...prompt, { role: 'assistant' as const, content: STAND_IN }];
  const text = tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt: false });
  const at = text.lastIndexOf(STAND_IN);
  if (at >= 0) return text.slice(at + STAND_IN.length);
  throw badInput("The model's chat template does not show what the assistant says.");
}

/** Without the `<think>` that the prompt has already opened, and what the prompt has after it. */
function withoutOpening(completion: string, prompt: string): string {
  const text = completion.trimStart();
  if (!text.startsWith(OPEN)) return completion;
  const rest = text.slice(OPEN.length);
  const after = prompt.slice(prompt.lastIndexOf(OPEN) + OPEN.length);
  return rest.startsWith(after) ? rest.slice(after.length) : rest;
}

const spaceless = (text: string): string => text.replace(/\s+/g, '');

/**
 * Prompt and completion as text. The template's own rendering of the completion is taken, as TRL does, where it
 * continues the prompt and leaves nothing out. Some templates drop the thinking of an assistant's message, or
 * open `<think>` in the prompt only: then the completion is taken as it is, and the template's end of turn.
 */
export function chatTexts(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  said: string,
  enableThinking: boolean,
): { prompt: string; completion: string } {
  const prompt = tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt: true });
  const answer = { role: 'assistant' as const, content: said };
  const whole = tokenizer.renderChat([...messages, answer], { enableThinking, addGenerationPrompt: false });
  const opened = new RegExp(`${OPEN}\\s*$`).test(prompt);
  const body = opened ? withoutOpening(said, prompt) : said;
  const rendered = whole.startsWith(prompt) ? whole.slice(prompt.length) : null;
  if (rendered !== null && spaceless(rendered).includes(spaceless(body)))
    return { prompt, completion: rendered };
  // A completion without thinking: what the prompt opened ends at once.
  const closing = opened && !body.includes(CLOSE) ? `\n${CLOSE}\n\n` : '';
  return { prompt, completion: closing + body + endOfTurn(tokenizer, messages, enableThinking) };
}

/**
 * The ids of both. They are encoded together, as TRL does, unless a token would hold the end of the prompt and the
 * beginning of the completion: a sampler never sees such a one.
 */
function encodeBoth(tokenizer: Tokenizer, prompt: string, completion: string): Tokens {
  const promptIds = tokenizer.encode(prompt);
  const ids = tokenizer.encode(prompt + completion);
  const whole = promptIds.every((id, i) => ids[i] === id);
  return { promptIds, completionIds: whole ? ids.slice(promptIds.length) : tokenizer.encode(completion) };
}

/** Raw text: nothing is added but the token that begins a text, if there is one, and eos_token. */
function encodeText(tokenizer: Tokenizer, prompt: string, completion: string): Tokens {
  const eos = tokenizer.eosToken ?? tokenizer.decode([tokenizer.eosIds[0]!]);
  const ended = completion.endsWith(eos) ? completion : completion + eos;
  const { promptIds, completionIds } = encodeBoth(tokenizer, prompt, ended);
  const first = [...(tokenizer.firstIds ?? []), ...promptIds];
  // Nothing predicts the first token of all.
  if (first.length === 0)
    return { promptIds: completionIds.slice(0, 1), completionIds: completionIds.slice(1) };
  return { promptIds: Int32Array.from(first), completionIds };
}

/** @throws BAD_INPUT when the model's chat template cannot be used */
export function encodeLesson(tokenizer: Tokenizer, lesson: Lesson, options: EncodeOptions): Tokens {
  if (lesson.form === 'text') return encodeText(tokenizer, lesson.prompt, lesson.completion);
  const messages: ChatMessage[] =
    lesson.form === 'chat'
      ? lesson.prompt
      : [
          ...(lesson.before ?? []),
          { role: 'user', content: fillTemplate(options.promptTemplate, lesson.prompt) },
        ];
  const { prompt, completion } = chatTexts(tokenizer, messages, lesson.completion, options.enableThinking);
  return encodeBoth(tokenizer, prompt, completion);
}
