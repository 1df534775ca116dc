/**
 * Reads completions from files in various formats: our own rows, vLLM's (batch requests, or its dumped
 * outputs), OpenAI-style chat or text completions, lm-evaluation-harness samples, or plain columns.
 */
import { scalarText } from '../data/columns';
import { goldFromAnswer } from '../data/gold';
import { isRecord } from '../base/json';
import type { Outside } from '../base/types';

type Row = Readonly<Record<string, unknown>>;

/** One completion of a row; null where the row lacks a value. */
export interface FoundText {
  text: string;
  totalTokens: number | null;
  thinkingTokens: number | null;
  /** Only in our own files. */
  outside?: Outside;
  truncated: boolean | null;
}

export interface FoundRow {
  texts: FoundText[];
  gold: string | null;
  /** Id of the problem; rows with the same id are answers to the same problem. */
  id: string | null;
  level: string | null;
  /** Position of the answer, given in our own files, which hold answers in the order they ended. */
  place: { index: number; sample: number } | null;
  /** In files of `acoer eval`, where every answer is there once; null in others. */
  benchmark: string | null;
}

const TEXT_COLUMNS = [
  'completion', 'response', 'text', 'output', 'prediction', 'generation', 'generated_text', 'model_output',
] as const; // prettier-ignore
export const GOLD_COLUMNS = [
  'gold', 'answer', 'target', 'reference', 'ground_truth', 'expected_answer', 'final_answer',
] as const; // prettier-ignore
const ID_COLUMNS = ['problem_id', 'unique_id', 'custom_id', 'doc_id', 'id', 'prompt_index', 'index'] as const;

/** A row that cannot be graded; the message says why. */
export class UngradedRow extends Error {}

const object = (value: unknown): Row | null => (isRecord(value) ? value : null);

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);

const number = (value: unknown): number | null => {
  const converted = typeof value === 'bigint' ? Number(value) : value;
  return typeof converted === 'number' && Number.isFinite(converted) ? converted : null;
};

function first<T>(row: Row, names: readonly string[], convert: (value: unknown) => T | null): T | null {
  for (const name of names) {
    const value = convert(row[name]);
    if (value !== null) return value;
  }
  return null;
}

const cutOff = (row: Row): boolean | null => {
  const reason = first(row, ['finish', 'finish_reason'], text);
  return reason === null ? null : reason === 'length';
};

const TOTAL_COLUMNS = ['total_tokens', 'completion_tokens', 'num_tokens', 'output_tokens'];

function outsideOf(row: Row): Pick<FoundText, 'outside'> {
  const [laterThinkingTokens, answerTokens] = [number(row.later_thinking_tokens), number(row.answer_tokens)];
  if (laterThinkingTokens === null || answerTokens === null) return {};
  return { outside: { laterThinkingTokens, answerTokens } };
}

const found = (content: string, row: Row): FoundText => ({
  text: content,
  totalTokens: first(row, TOTAL_COLUMNS, number),
  thinkingTokens: first(row, ['thinking_tokens', 'reasoning_tokens'], number),
  truncated: cutOff(row),
  ...outsideOf(row),
});

/** Puts reasoning that a server split off from the content back where the model wrote it. */
function messageText(message: Row): string | null {
  const content = text(message.content) ?? '';
  const reasoning = text(message.reasoning_content) ?? text(message.reasoning);
  if (reasoning === null) return text(message.content);
  return `<think>\n${reasoning}\n</think>\n\n${content}`;
}

/** One choice of an OpenAI-style answer. Usage is the total of all choices, so it needs a single one. */
function choiceText(choice: Row, usage: Row | null): FoundText | null {
  const message = object(choice.message);
  const content = message === null ? text(choice.text) : messageText(message);
  if (content === null) return null;
  const details = object(usage?.completion_tokens_details);
  return {
    text: content,
    totalTokens: number(usage?.completion_tokens),
    thinkingTokens: number(details?.reasoning_tokens),
    truncated: cutOff(choice),
  };
}

function fromChoices(body: Row): FoundText[] | null {
  if (!Array.isArray(body.choices)) return null;
  const choices = body.choices.map(object).filter((choice) => choice !== null);
  const usage = choices.length === 1 ? object(body.usage) : null;
  return choices.map((choice) => choiceText(choice, usage)).filter((one) => one !== null);
}

/** vLLM's outputs, each {text, token_ids, finish_reason}. */
function fromOutputs(outputs: unknown): FoundText[] | null {
  if (!Array.isArray(outputs)) return null;
  const texts = outputs.map((output): FoundText | null => {
    if (typeof output === 'string') return found(output, {});
    const row = object(output);
    const content = row === null ? null : text(row.text);
    if (row === null || content === null) return null;
    const ids = row.token_ids;
    return { ...found(content, row), totalTokens: Array.isArray(ids) ? ids.length : null };
  });
  return texts.filter((one) => one !== null);
}

/** lm-evaluation-harness: a list per request, with one text per repeat. */
function fromResponses(resps: unknown): FoundText[] | null {
  if (!Array.isArray(resps)) return null;
  return resps.flat(2).flatMap((one) => (typeof one === 'string' ? [found(one, {})] : []));
}

function fromColumns(row: Row): FoundText[] | null {
  for (const name of TEXT_COLUMNS) {
    const value = row[name];
    if (typeof value === 'string') return [found(value, row)];
    if (Array.isArray(value) && value.every((one) => typeof one === 'string')) {
      return value.map((one) => found(one, { finish: row.finish, finish_reason: row.finish_reason }));
    }
  }
  return null;
}

/** A failed batch request has an error instead of an answer. */
function refuseFailed(row: Row): void {
  const failure = object(row.error) ?? object(object(object(row.response)?.body)?.error);
  if (failure === null) return;
  const reason = text(failure.message) ?? JSON.stringify(failure);
  throw new UngradedRow(`the request failed (${reason}); repeat the request or remove the line`);
}

function goldOf(row: Row): string | null {
  const convert = (value: unknown): string | null => {
    if (Array.isArray(value)) return value.length > 0 ? value.map(String).join(', ') : null;
    return scalarText(value);
  };
  const doc = object(row.doc);
  const own = first(row, GOLD_COLUMNS, convert);
  const gold = own === null || own === '' ? (doc === null ? own : first(doc, GOLD_COLUMNS, convert)) : own;
  return gold === null ? null : goldFromAnswer(gold);
}

function placeOf(row: Row): FoundRow['place'] {
  const [index, sample] = [number(row.prompt_index), number(row.sample)];
  return index === null || sample === null ? null : { index, sample };
}

/** The contents of a row in any of these formats. Throws UngradedRow. */
export function readFileRow(row: Row): FoundRow {
  refuseFailed(row);
  const body = object(object(row.response)?.body) ?? row;
  const texts = fromResponses(row.resps) ?? fromChoices(body) ?? fromOutputs(row.outputs) ?? fromColumns(row);
  if (texts === null || texts.length === 0) {
    throw new UngradedRow(
      `no completion found: looked for ${TEXT_COLUMNS.join(', ')}, choices, outputs and resps; its columns are ${Object.keys(row).join(', ') || '(none)'}`,
    );
  }
  const doc = object(row.doc) ?? {};
  return {
    texts,
    gold: goldOf(row),
    id: first(row, ID_COLUMNS, scalarText) ?? first(row, ['prompt', 'question', 'problem'], text),
    level: first(row, ['level'], scalarText) ?? first(doc, ['level'], scalarText),
    place: placeOf(row),
    benchmark: text(row.benchmark),
  };
}
