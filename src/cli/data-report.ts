/** The report of `acoer data` on a data set. */
import type { Config } from '../config';
import type { Dataset } from '../data';
import { Pace } from '../base/pace';
import { promptFaults, promptMessages, renderPrompt, type Tokenizer } from '../tokenizer';
import type { Problem } from '../base/types';

export interface Lengths {
  unit: 'tokens' | 'characters';
  /** Number of problems measured. */
  measured: number;
  min: number;
  mean: number;
  median: number;
  p95: number;
  p99: number;
  max: number;
  /** Bins that double in size: from `from` to `to`, both inclusive. */
  histogram: { from: number; to: number; count: number }[];
}

export interface ExampleRow extends Pick<Problem, 'id' | 'level' | 'gold'> {
  /** Position among the problems kept, from 1. */
  row: number;
  /** The prompt as the model gets it; without a tokenizer, only the user message. */
  prompt: string;
  /** The prompt's token ids and their texts; null without a tokenizer. */
  ids: number[] | null;
  tokens: string[] | null;
}

export interface DataReport extends Partial<NonNullable<Dataset['source']>> {
  name: string;
  problems: number;
  /** Problems that a run would train and evaluate on, and why some are left out; absent if unknown. */
  training?: number;
  evaluation?: number;
  notices?: readonly string[];
  levels: Record<string, number>;
  promptLengths: Lengths;
  goldLengths: Lengths;
  /** Measured prompts longer than `maxPromptLength`; null without a limit. */
  tooLong: number | null;
  examples: ExampleRow[];
}

export interface ReportOptions {
  config: Pick<Config, 'promptTemplate' | 'enableThinking' | 'maxPromptLength'>;
  /** null: lengths are counted in characters. */
  tokenizer: Tokenizer | null;
  /** Indices of the problems to show, from 0. */
  rows: readonly number[];
  /** How many prompts to measure, evenly spread; 0: all. */
  sample: number;
  signal?: AbortSignal;
}

/** The bin of a length; bins double: 0, 1, 2-3, 4-7, ... */
const binOf = (length: number): number => (length < 1 ? 0 : Math.floor(Math.log2(length)) + 1);
const binStart = (bin: number): number => (bin === 0 ? 0 : 2 ** (bin - 1));

/** @param lengths at least one */
export function summariseLengths(unit: Lengths['unit'], lengths: readonly number[]): Lengths {
  const sorted = [...lengths].sort((a, b) => a - b);
  const n = sorted.length;
  // Nearest-rank method.
  const quantile = (q: number) => sorted[Math.max(0, Math.ceil(q * n) - 1)]!;
  const counts = new Map<number, number>();
  for (const length of sorted) counts.set(binOf(length), (counts.get(binOf(length)) ?? 0) + 1);
  const [first, last] = [binOf(sorted[0]!), binOf(sorted[n - 1]!)];
  return {
    unit,
    measured: n,
    min: sorted[0]!,
    mean: sorted.reduce((sum, length) => sum + length, 0) / n,
    median: quantile(0.5),
    p95: quantile(0.95),
    p99: quantile(0.99),
    max: sorted[n - 1]!,
    histogram: Array.from({ length: last - first + 1 }, (_, i) => ({
      from: binStart(first + i),
      to: Math.max(0, binStart(first + i + 1) - 1),
      count: counts.get(first + i) ?? 0,
    })),
  };
}

function promptOf(
  { config, tokenizer }: ReportOptions,
  problem: Problem,
): { text: string; ids: Int32Array | null } {
  if (tokenizer === null) {
    const messages = promptMessages(problem, config.promptTemplate);
    // A chat says whose message each is; a question alone needs no name.
    const texts = messages.map(({ role, content }) =>
      messages.length === 1 ? content : `${role}: ${content}`,
    );
    return { text: texts.join('\n'), ids: null };
  }
  return renderPrompt(tokenizer, problem, 0, config);
}

async function measurePrompts(dataset: Dataset, options: ReportOptions): Promise<number[]> {
  const n = options.sample === 0 ? dataset.size : Math.min(options.sample, dataset.size);
  const pace = new Pace();
  const lengths: number[] = [];
  for (let i = 0; i < n; i++) {
    const { text, ids } = promptOf(options, dataset.get(Math.floor((i * dataset.size) / n)));
    lengths.push(ids?.length ?? text.length);
    await pace.turn();
    options.signal?.throwIfAborted();
  }
  return lengths;
}

function example(dataset: Dataset, index: number, options: ReportOptions): ExampleRow {
  const problem = dataset.get(index);
  const { text, ids } = promptOf(options, problem);
  const { id, level, gold } = problem;
  const list = ids === null ? null : Array.from(ids);
  const tokens = list?.map((one) => options.tokenizer!.decode([one])) ?? null;
  return { row: index + 1, id, level, gold, prompt: text, ids: list, tokens };
}

/** Number of problems per level, numeric levels first and in order. */
function countLevels(dataset: Dataset): Record<string, number> {
  const counts = new Map<string, number>();
  for (let i = 0; i < dataset.size; i++) {
    const { level } = dataset.get(i);
    if (level !== null) counts.set(level, (counts.get(level) ?? 0) + 1);
  }
  const inOrder = [...counts].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }));
  return Object.fromEntries(inOrder);
}

export async function reportOn(dataset: Dataset, options: ReportOptions): Promise<DataReport> {
  const { tokenizer, config, signal } = options;
  const notices = tokenizer === null ? [] : await promptFaults(tokenizer, [dataset], { ...config, signal });
  const lengths = await measurePrompts(dataset, options);
  const golds = Array.from({ length: dataset.size }, (_, i) => (dataset.get(i).gold ?? '').length);
  const { maxPromptLength } = options.config;
  return {
    ...dataset.source,
    name: dataset.name,
    problems: dataset.size,
    ...(notices.length > 0 && { notices }),
    levels: countLevels(dataset),
    promptLengths: summariseLengths(options.tokenizer === null ? 'characters' : 'tokens', lengths),
    goldLengths: summariseLengths('characters', golds),
    tooLong:
      maxPromptLength === null || options.tokenizer === null
        ? null
        : lengths.filter((length) => length > maxPromptLength).length,
    examples: options.rows.filter((row) => row < dataset.size).map((row) => example(dataset, row, options)),
  };
}
