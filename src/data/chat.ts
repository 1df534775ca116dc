/** Chats in the columns of data: lists of messages as the chat templates of models take them. */
import { isRecord, shownJson } from '../base/json';
import type { ChatMessage } from '../base/types';
import { BadRow } from './rows';

type Message = Readonly<Record<string, unknown>>;

const ROLES: readonly string[] = ['system', 'user', 'assistant'];

const isRole = (role: unknown): role is ChatMessage['role'] =>
  typeof role === 'string' && ROLES.includes(role);

const hasEntries = (value: unknown): boolean => Array.isArray(value) && value.length > 0;

/** Text as it is, or its parts `{type: "text", text}`, each on a line of its own, as vLLM joins them. */
function contentText(content: unknown, at: string): string {
  if (typeof content === 'string') return content;
  if (typeof content === 'number' || typeof content === 'bigint') return String(content);
  if (!Array.isArray(content) || content.length === 0) {
    throw new BadRow(`must have text as the content of ${at}`);
  }
  const texts = content.map((part: unknown) => {
    if (typeof part === 'string') return part;
    const type = isRecord(part) ? part['type'] : undefined;
    if (isRecord(part) && type === 'text' && typeof part['text'] === 'string') return part['text'];
    if (type === 'text' || type === undefined) throw new BadRow(`must have text as the content of ${at}`);
    const what = typeof type === 'string' ? `a part of type ${shownJson(type)}` : shownJson(part);
    throw new BadRow(`has ${what} in ${at}; only text can be used`);
  });
  return texts.join('\n');
}

/** Thinking that is kept in a field of its own belongs to the content, where the template expects it too. */
function withReasoning(content: string, { reasoning_content: reasoning }: Message): string {
  return typeof reasoning === 'string' && reasoning.trim() !== ''
    ? `<think>\n${reasoning.trim()}\n</think>\n\n${content}`
    : content;
}

/**
 * The messages in a column.
 * @throws BadRow for what is not a list of messages of text
 */
export function chatOf(value: unknown, column: string): ChatMessage[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw new BadRow(`must have a list of messages in ${column}`);
  }
  return value.map((message: unknown, i) => {
    const at = `message ${i + 1} of ${column}`;
    if (!isRecord(message)) throw new BadRow(`has something else than {role, content} as ${at}`);
    if (!isRole(message.role)) {
      throw new BadRow(
        `has the role ${shownJson(message.role)} in ${at}; roles are system, user and assistant`,
      );
    }
    if (hasEntries(message['tool_calls'])) throw new BadRow(`calls a tool in ${at}, which is not supported`);
    return { role: message.role, content: withReasoning(contentText(message.content, at), message) };
  });
}

/** The last message of a chat, which is the question, and those before it. */
export interface Question {
  question: string;
  before?: readonly ChatMessage[];
}

/**
 * A question from the messages in a column: all are kept, and the last must be the user's.
 * @throws BadRow
 */
export function chatQuestion(value: unknown, column: string): Question {
  const messages = chatOf(value, column);
  const empty = messages.findIndex(({ role, content }) => role !== 'system' && content.trim() === '');
  if (empty >= 0) throw new BadRow(`has nothing in message ${empty + 1} of ${column}`);
  const { role, content: question } = messages.at(-1)!;
  if (role !== 'user') {
    throw new BadRow(
      `must end with the user's message in ${column}, not the ${role}'s: the answer is the model's`,
    );
  }
  const before = messages.slice(0, -1);
  return before.length === 0 ? { question } : { question, before };
}
