/** The paper's protocol: one completion per problem, boxed answer verified, lengths counted in tokens. */
import type { Dataset } from '../data';
import type { GeneratedSequence, Model, Policy } from '../engine/types';
import { AcoerError } from '../errors';
import { streamSeed } from '../rng';
import { measureThinking, renderPrompts, type Tokenizer } from '../tokenizer';
import type { Prompt } from '../types';
import { verifyCompletion } from '../verify';
import { type EvalSummary, type Graded, summarise } from './summary';

export { type EvalSummary, type Graded, type LevelSummary, summarise, type TokenMeans } from './summary';

/** `temperature` > 0; the seed and the problem's row alone key the draws. */
export type EvalSampling = 'greedy' | { temperature: number; seed: number };

export interface EvalCompletion extends Graded {
  index: number;
  prompt: Prompt;
  ids: Int32Array;
  text: string;
}

export interface EvalOptions {
  model: Model;
  /** null: the base model. */
  policy: Policy | null;
  tokenizer: Tokenizer;
  dataset: Dataset;
  /** The first n problems; at most the dataset's size are used. */
  n: number;
  sampling: EvalSampling;
  maxNewTokens: number;
  promptTemplate?: string;
  /** Default true. */
  enableThinking?: boolean;
  maxSlots?: number;
  kvBytes?: number;
  signal?: AbortSignal;
  onProgress?: (progress: { done: number; total: number }) => void;
  /** Called as each completion ends, in the order they end. */
  onCompletion?: (completion: EvalCompletion) => void;
}

function grade(options: EvalOptions, prompt: Prompt, sequence: GeneratedSequence): EvalCompletion {
  const text = options.tokenizer.decode(sequence.ids, { skipSpecial: true });
  return {
    ...measureThinking(sequence.ids, options.tokenizer, prompt.thinkOpened),
    index: prompt.index,
    prompt,
    ids: sequence.ids,
    text,
    level: prompt.problem.level,
    verdict: verifyCompletion(text, prompt.problem.gold),
    totalTokens: sequence.ids.length,
    truncated: sequence.finish === 'length',
  };
}

/** Throws CANCELLED when `signal` fires before every problem is answered. */
export async function evaluate(options: EvalOptions): Promise<EvalSummary> {
  const { model, policy, tokenizer, dataset, sampling } = options;
  const total = Math.min(options.n, dataset.size);
  if (!Number.isInteger(total) || total < 1) {
    throw new AcoerError('BAD_ARGUMENT', `evaluate needs n >= 1, not ${options.n}`);
  }
  const problems = Array.from({ length: total }, (_, i) => dataset.get(i));
  const prompts = await renderPrompts(tokenizer, problems, options);
  const stopIds = Int32Array.from(tokenizer.eosIds);
  const rows: EvalCompletion[] = [];
  await model.generate(
    prompts.map((prompt) => ({
      promptIds: prompt.ids,
      seed: sampling === 'greedy' ? 0n : streamSeed(sampling.seed, 'eval', prompt.index),
      maxNewTokens: options.maxNewTokens,
      stopIds,
      sampling: { temperature: sampling === 'greedy' ? 0 : sampling.temperature },
      policy,
    })),
    {
      signal: options.signal,
      maxSlots: options.maxSlots,
      kvBytes: options.kvBytes,
      onSequence: (sequence) => {
        if (sequence.finish === 'cancelled') return;
        const row = grade(options, prompts[sequence.request], sequence);
        rows.push(row);
        options.onCompletion?.(row);
        options.onProgress?.({ done: rows.length, total });
      },
    },
  );
  if (rows.length < total) {
    throw new AcoerError('CANCELLED', `Evaluation stopped after ${rows.length} of ${total} problems`);
  }
  // The order in which sequences end must not change the last bits of a mean.
  return summarise(rows.sort((a, b) => a.index - b.index));
}
