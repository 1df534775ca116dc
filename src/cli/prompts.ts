/** Checks the input lines of `acoer generate` and `acoer score` and turns them into token ids. */
import { z } from 'zod';
import { AcoerError, errorMessage } from '../base/errors';
import { shownJson } from '../base/json';
import {
  type LostCharacters,
  promptTokens,
  type RenderedChat,
  renderForAnswer,
  thinkLeftOpen,
  type Tokenizer,
} from '../tokenizer';
import type { Model } from '../engine/types';
import type { ChatMessage } from '../base/types';
import { badLine } from '../base/json-lines';
import { objectOf, type JsonLine } from './jsonl';

/** A checked prompt as it is spooled. */
export interface PromptLine {
  ids: number[];
  thinkOpened: boolean;
}

type ModelLimits = Pick<Model['info'], 'vocabSize' | 'maxPositions'>;

const ROLES = ['system', 'user', 'assistant'] as const;
const messagesSchema = z.array(z.object({ role: z.enum(ROLES), content: z.string() })).min(1);

const FORMS = ['prompt', 'messages', 'ids'] as const;
type Form = (typeof FORMS)[number];

function formOf(line: number, object: Record<string, unknown>): Form {
  const given = FORMS.filter((form) => object[form] !== undefined);
  if (given.length === 1) return given[0]!;
  const found = given.length === 0 ? 'none of them' : given.join(' and ');
  throw badLine(line, `expected exactly one of "prompt", "messages" and "ids", found ${found}.`);
}

/** Token ids as given; throws unless they are whole numbers within the vocabulary. */
function checkIds(line: number, value: unknown, limits: ModelLimits): number[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw badLine(line, '"ids" must be a non-empty list of token ids.');
  }
  const wrong = value.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= limits.vocabSize);
  if (wrong === -1) return value as number[];
  throw badLine(
    line,
    `"ids"[${wrong}] is ${shownJson(value[wrong])}; it must be a whole number from 0 to ${limits.vocabSize - 1}.`,
  );
}

function checkMessages(line: number, value: unknown): ChatMessage[] {
  const parsed = messagesSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  const where = path.map((part) => `[${JSON.stringify(part)}]`).join('');
  throw badLine(line, `"messages"${where}: ${message}; write [{"role": "user", "content": "..."}].`);
}

/** Makes the error to throw from what is wrong with a prompt. */
type Failure = (message: string) => AcoerError;

function fromMessages(messages: ChatMessage[], tokenizer: Tokenizer, failure: Failure): PromptLine {
  let rendered: RenderedChat;
  try {
    rendered = renderForAnswer(tokenizer, messages, true);
  } catch (error) {
    throw failure(errorMessage(error));
  }
  const { ids, thinkOpened } = promptTokens(tokenizer, rendered);
  return { ids: Array.from(ids), thinkOpened };
}

function fromIds(ids: ArrayLike<number>, tokenizer: Tokenizer): PromptLine {
  return { ids: Array.from(ids), thinkOpened: thinkLeftOpen(Int32Array.from(ids), tokenizer) };
}

function checkLength(prompt: PromptLine, limits: ModelLimits, failure: Failure): PromptLine {
  if (prompt.ids.length === 0) throw failure('the prompt is empty.');
  if (prompt.ids.length < limits.maxPositions) return prompt;
  throw failure(
    `the prompt has ${prompt.ids.length} tokens, but the model has only ${limits.maxPositions} positions for prompt and completion.`,
  );
}

interface Reading {
  tokenizer: Tokenizer;
  limits: ModelLimits;
  /** Counts characters that the tokenizer drops. */
  lost: LostCharacters;
}

/** A user message put through the chat template. */
export function chatPrompt(content: string, { tokenizer, limits, lost }: Reading): PromptLine {
  const failure = (message: string) => new AcoerError('BAD_ARGUMENT', `--prompt: ${message}`);
  if (content.trim() === '') throw failure('the prompt is empty.');
  lost.add(content);
  return checkLength(fromMessages([{ role: 'user', content }], tokenizer, failure), limits, failure);
}

function toPrompt(line: JsonLine, { tokenizer, limits, lost }: Reading, failure: Failure): PromptLine {
  const object = objectOf(line);
  switch (formOf(line.line, object)) {
    case 'ids':
      return fromIds(checkIds(line.line, object.ids, limits), tokenizer);
    case 'messages': {
      const messages = checkMessages(line.line, object.messages);
      for (const { content } of messages) lost.add(content);
      return fromMessages(messages, tokenizer, failure);
    }
    case 'prompt':
      if (typeof object.prompt !== 'string') throw badLine(line.line, '"prompt" must be a string.');
      lost.add(object.prompt);
      return fromIds(tokenizer.encode(object.prompt), tokenizer);
  }
}

/** The line check that `Spool.fill` calls for `acoer generate`. */
export function promptReader(reading: Reading): (line: JsonLine) => PromptLine {
  return (line) => {
    const failure = (message: string) => badLine(line.line, message);
    return checkLength(toPrompt(line, reading, failure), reading.limits, failure);
  };
}

/** A sequence to score as it is spooled. */
export interface ScoreLine {
  ids: number[];
  promptLength: number;
}

/** The line check that `Spool.fill` calls for `acoer score`. */
export function scoreReader(limits: ModelLimits): (line: JsonLine) => ScoreLine {
  return (line) => {
    const bad = (what: string) => badLine(line.line, what);
    const object = objectOf(line);
    const ids = checkIds(line.line, object.ids, limits);
    const { data: promptLength } = z.int().min(1).max(ids.length).safeParse(object.promptLength);
    if (promptLength === undefined) {
      const found = object.promptLength === undefined ? 'missing' : shownJson(object.promptLength);
      throw bad(
        `"promptLength" is ${found}; it must be a whole number from 1 to ${ids.length}, the number of ids.`,
      );
    }
    if (ids.length <= limits.maxPositions) return { ids, promptLength };
    throw bad(`it has ${ids.length} ids, but the model has only ${limits.maxPositions} positions.`);
  };
}
