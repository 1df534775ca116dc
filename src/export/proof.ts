/** Whether exported weights still are the run: the same prompts answered by both, compared token by token. */
import { packSequences } from '../base/packing';
import { maximum, mean } from '../base/statistics';
import type { CallOptions, GenerateRequest, Model, PackedSequences, Policy } from '../engine/types';

/** Tokens of an answer that are compared. */
export const PROOF_TOKENS = 128;

/** Over this the export has lost what it should keep. */
export const PROOF_BOUNDS = { kl: 1e-3, otherAnswers: 1 / 32 } as const;

/** What was exported, loaded again. */
export interface Exported {
  model: Model;
  /** null: the model alone. */
  policy: Policy | null;
}

/** What a model says to prompts: greedy, and sampled at temperature 1. */
export interface Answers {
  greedy: Int32Array[];
  sampled: PackedSequences;
  /** One per sampled token, end to end. */
  logprobs: Float64Array;
}

/** What the exported weights say, compared with the run. */
export interface Proof {
  prompts: number;
  /** Greedy answers that are equal, of `prompts`. */
  sameAnswers: number;
  /** Tokens whose log-probs are compared: sampled from the run. */
  tokens: number;
  meanLogprobError: number;
  maxLogprobError: number;
  /** KL(run || export) per token in nats, estimated on these tokens (Schulman's k3). */
  kl: number;
}

export interface Asked {
  promptIds: readonly Int32Array[];
  stopIds: Int32Array;
}

function requestsOf({ promptIds, stopIds }: Asked, model: Model, policy: Policy | null, temperature: number) {
  return promptIds.map((ids, i): GenerateRequest => ({
    promptIds: ids,
    stopIds,
    seed: BigInt(i),
    maxNewTokens: Math.min(PROOF_TOKENS, model.info.maxPositions - ids.length),
    sampling: { temperature },
    policy,
  }));
}

async function answers(
  asked: Asked,
  model: Model,
  policy: Policy | null,
  temperature: number,
  options: CallOptions,
) {
  const { sequences } = await model.generate(requestsOf(asked, model, policy, temperature), options);
  return sequences.map(({ ids }) => ids);
}

/** @param policy null: the model's own weights */
export async function askRun(
  asked: Asked,
  model: Model,
  policy: Policy | null,
  options: CallOptions,
): Promise<Answers> {
  const greedy = await answers(asked, model, policy, 0, options);
  const drawn = await answers(asked, model, policy, 1, options);
  const sampled = packSequences(
    asked.promptIds.map((promptIds, i) => ({ promptIds, completionIds: drawn[i]! })),
  );
  const { logprobs } = await model.score(sampled, { policy, ...options });
  return { greedy, sampled, logprobs };
}

const sameIds = (a: Int32Array, b: Int32Array): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i]);

/** Asks the exported model what the run was asked. */
export async function compare(
  asked: Asked,
  run: Answers,
  { model, policy }: Exported,
  options: CallOptions,
): Promise<Proof> {
  const greedy = await answers(asked, model, policy, 0, options);
  const { logprobs } = await model.score(run.sampled, { policy, ...options });
  const differences = Array.from(logprobs, (logprob, i) => logprob - run.logprobs[i]!);
  const sizes = differences.map(Math.abs);
  return {
    prompts: greedy.length,
    sameAnswers: greedy.filter((ids, i) => sameIds(ids, run.greedy[i]!)).length,
    tokens: sizes.length,
    meanLogprobError: mean(sizes),
    maxLogprobError: maximum(sizes),
    kl: mean(differences.map((d) => Math.expm1(d) - d)),
  };
}

/** What the figures say against the export, in words; null: nothing. */
export function proofProblem({ prompts, sameAnswers, kl }: Proof): string | null {
  const other = prompts - sameAnswers;
  if (kl > PROOF_BOUNDS.kl)
    return `its distribution is ${kl.toExponential(1)} nats per token from the run's; at most ${PROOF_BOUNDS.kl} is wanted`;
  if (other > Math.max(1, PROOF_BOUNDS.otherAnswers * prompts))
    return `${other} of ${prompts} greedy answers are not the run's`;
  return null;
}
