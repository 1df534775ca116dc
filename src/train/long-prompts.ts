/** Finds prompts that are too long when a run is opened, so that none can end it in the middle. */
import type { Config } from '../config';
import type { Dataset } from '../data';
import { AcoerError, badUsage } from '../base/errors';
import { grouped } from '../base/text';
import { Pace } from '../base/pace';
import { promptLimit, type PlannedModel } from '../plan';
import { promptMessages, type Tokenizer } from '../tokenizer';
import type { ChatMessage, Problem } from '../base/types';

interface LongPrompts {
  /** Row numbers in the data set. */
  rows: Set<number>;
  /** null: no prompt is too long. */
  longest: { tokens: number; id: string } | null;
}

export interface Scanned {
  dataset: Dataset;
  /** How many problems to measure, from the first. */
  count: number;
  tokenizer: Tokenizer;
  config: Pick<Config, 'promptTemplate' | 'enableThinking'>;
  signal?: AbortSignal;
}

/** Most bytes that a UTF-16 code unit takes in UTF-8. */
const MAX_BYTES = 3;

const bytes = (text: string): number => Buffer.byteLength(text.normalize('NFC'));

/** Stands for a message: templates may leave out an empty one. */
const STAND_IN = 'x';

/** Bytes that the chat template puts around messages of these roles. */
function bytesAround(render: (messages: readonly ChatMessage[]) => string): (problem: Problem) => number {
  const known = new Map<string, number>();
  return ({ before = [] }) => {
    const roles = [...before.map(({ role }) => role), 'user' as const];
    const key = roles.join(' ');
    let around = known.get(key);
    if (around === undefined) {
      around = bytes(render(roles.map((role) => ({ role, content: STAND_IN }))));
      known.set(key, around);
    }
    return around;
  };
}

/**
 * The problems whose prompts have more than `limit` tokens. A token stands for at least one byte, so only
 * prompts of more than `limit` bytes are encoded; hundreds of thousands of short ones take a second. Yields
 * to the event loop.
 * @throws INTERRUPTED when the signal aborts
 */
export async function findLongPrompts(limit: number, scanned: Scanned): Promise<LongPrompts> {
  const { dataset, count, tokenizer, config, signal } = scanned;
  const { promptTemplate, enableThinking } = config;
  const render = (messages: readonly ChatMessage[]) =>
    tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt: true });
  const around = bytesAround(render);
  const empty = { id: '', question: '', gold: null, level: null };
  const template = bytes(promptTemplate);
  const repeats = promptTemplate.split('{problem}').length - 1;
  const found: LongPrompts = { rows: new Set(), longest: null };
  // When no question can be too long, a data set that generates its rows on demand need not generate any.
  const { longestQuestion = Infinity } = dataset;
  if (around(empty) + template + repeats * MAX_BYTES * longestQuestion <= limit) return found;
  const pace = new Pace();
  for (let row = 0; row < Math.min(count, dataset.size); row++) {
    await pace.turn();
    if (signal?.aborted === true) throw new AcoerError('INTERRUPTED', 'Interrupted while measuring prompts.');
    const problem = dataset.get(row);
    const { question, before = [], id } = problem;
    const said = before.reduce((sum, { content }) => sum + bytes(content), 0);
    if (around(problem) + template + said + repeats * bytes(question) <= limit) continue;
    const tokens = tokenizer.encode(render(promptMessages(problem, promptTemplate))).length;
    if (tokens <= limit) continue;
    found.rows.add(row);
    if (tokens > (found.longest?.tokens ?? 0)) found.longest = { tokens, id };
  }
  return found;
}

/** The limit that the prompts exceed, in words. */
function limitInWords(config: Config, { maxPositions }: PlannedModel): string {
  const { maxPromptLength, maxCompletionLength } = config;
  if (maxPromptLength !== null && maxPromptLength <= maxPositions - maxCompletionLength) {
    return `maxPromptLength = ${maxPromptLength} tokens`;
  }
  const room = grouped(maxPositions - maxCompletionLength);
  return `the ${room} tokens that maxCompletionLength = ${maxCompletionLength} leaves of the model's ${grouped(maxPositions)} positions`;
}

/** When none of so many prompts fits, the search ends: it would take minutes to find the odd one that does. */
const TRIED = 512;

const evenly = (dataset: Dataset): Dataset => ({
  ...dataset,
  size: TRIED,
  get: (index) => dataset.get(Math.floor((index * dataset.size) / TRIED)),
});

/**
 * The rows to leave out of training; `onNotice` is told how many.
 * @throws BAD_CONFIG when no row is left, or none of those tried first
 */
export async function skippedPrompts(
  config: Config,
  model: PlannedModel,
  data: { tokenizer: Tokenizer; trainData: Dataset },
  options: { signal?: AbortSignal; onNotice?: (message: string) => void },
): Promise<Set<number>> {
  const { trainData: dataset, tokenizer } = data;
  const { size, name } = dataset;
  const scanned = { dataset, count: size, tokenizer, config, signal: options.signal };
  const limit = promptLimit(config, model);
  const over = limitInWords(config, model);
  const refuse = (which: string): never => {
    const advice = over.startsWith('max') ? 'raise it' : 'lower maxCompletionLength';
    throw badUsage(`${which} is longer than ${over}; ${advice}.`);
  };
  if (size > TRIED) {
    const some = await findLongPrompts(limit, { ...scanned, dataset: evenly(dataset), count: TRIED });
    if (some.rows.size === TRIED) refuse(`Every one of ${grouped(TRIED)} prompts spread over ${name}`);
  }
  const { rows, longest } = await findLongPrompts(limit, scanned);
  if (longest === null) return rows;
  if (rows.size === size) refuse(`Every prompt of ${name}`);
  const which = `${grouped(rows.size)} of ${grouped(size)} problems skipped`;
  options.onNotice?.(
    `${name}: ${which}: the prompt is longer than ${over} (the longest, of problem ${longest.id}: ${grouped(longest.tokens)}).`,
  );
  return rows;
}

/** Says how many problems of an evaluation the model has no room for: they count as unanswered. */
export async function noteUnanswerable(
  scanned: Scanned,
  { maxPositions }: PlannedModel,
  onNotice: (message: string) => void,
): Promise<void> {
  const { rows, longest } = await findLongPrompts(maxPositions - 1, scanned);
  if (longest === null) return;
  onNotice(
    `${scanned.dataset.name}: ${grouped(rows.size)} of the ${grouped(Math.min(scanned.count, scanned.dataset.size))} evaluated problems count as unanswered: ` +
      `the prompt leaves no room in the model's ${grouped(maxPositions)} positions (the longest, of problem ${longest.id}: ${grouped(longest.tokens)} tokens).`,
  );
}
