/**
 * Whether a server samples from the distribution that we train. It is asked for completions with an adapter made for the
 * purpose, whose log-probs are far from the base model's, and we score its tokens as the trainer does: at the run's
 * temperature, at 1 (which vLLM reports by default), and with the base model. What is nearest says what is wrong.
 */
import { packSequences, type Tokens } from '../../base/packing';
import { streamSeed } from '../../base/rng';
import { maximum, mean, minimum } from '../../base/statistics';
import type { Model, Policy } from '../../engine/types';
import type { PublishedAdapter } from './pool';
import { ServerFault, type Server } from './server';
import { bodyOf, readAnswer, type ServedModel, type Wanted, wantedOf } from './wire';

/** Tokens of each of the completions. */
const TOKENS = 64;
/** How far apart log-probs may be on average, in nats, where our own sampler and trainer agree. */
const LEAST_TOLERANCE = 0.05;
/** A sampler in bfloat16 differs from its own trainer by some hundredths of a nat; two of them differ by more. */
const OWN_GAPS = 3;
/** How far the adapter's log-probs are to be from the base model's. */
const APART = 0.5;
const MOST_STEPS = 50;
const LEARNING_RATE = 2e-3;
const REQUEST_MS = 120_000;

/** What the proof is made with. */
export interface ProbeParts {
  model: Model;
  /** Of the run, for messages. */
  modelName: string;
  /** Token ids of some prompts of the run. */
  prompts: readonly Int32Array[];
  temperature: number;
  /** The most tokens of a completion of the run. */
  maxNewTokens: number;
}

const completionsOf = ({ prompts, temperature, maxNewTokens }: ProbeParts): Wanted[] => {
  const asked = prompts.map((ids, i) => ({
    ...{ ids, thinkOpened: false, firstSample: 0, numSamples: 1 },
    ...{ seed: streamSeed(i, 'probe'), maxNewTokens: Math.min(TOKENS, maxNewTokens) },
  }));
  // Without stop ids every completion has all its tokens.
  return wantedOf(asked, temperature, new Int32Array(0));
};

/** Log-probs of completions under `policy`, end to end. */
async function scored(
  model: Model,
  sequences: readonly Tokens[],
  policy: Policy | null,
  temperature: number,
): Promise<Float64Array> {
  const { logprobs } = await model.score(packSequences(sequences), { policy, temperature });
  return logprobs;
}

/** Completions, and the log-probs that their sampler gave them, end to end. */
interface Sampled {
  texts: Tokens[];
  logprobs: Float64Array;
}

const gaps = (a: Float64Array, b: Float64Array): Float64Array => a.map((value, i) => Math.abs(value - b[i]!));

/** Completions of `policy` by our own engine, and its log-probs, end to end. */
async function sampled(policy: Policy | null, parts: ProbeParts): Promise<Sampled> {
  const { model, temperature } = parts;
  const wanted = completionsOf(parts);
  const requests = wanted.map(({ promptIds, maxNewTokens, stopIds, seed }) => ({
    ...{ promptIds, maxNewTokens, stopIds, policy, seed: BigInt(seed) },
    sampling: { temperature },
  }));
  const { sequences } = await model.generate(requests, { maxSlots: requests.length });
  return {
    texts: sequences.map(({ request, ids }) => ({
      promptIds: wanted[request]!.promptIds,
      completionIds: ids,
    })),
    logprobs: Float64Array.from(sequences.flatMap(({ logprobs }) => [...logprobs])),
  };
}

/**
 * Trains `policy`, fresh, until its log-probs of what the base model samples are far from the base model's. They are
 * lowered, which spreads the distribution: log-probs from before a temperature are then others as well.
 */
export async function trainApart(policy: Policy, parts: ProbeParts): Promise<void> {
  const { model, temperature } = parts;
  const { texts } = await sampled(null, parts);
  const packed = packSequences(texts);
  const base = await scored(model, texts, null, temperature);
  for (let step = 0; step < MOST_STEPS; step++) {
    const { logprobs } = await policy.forward(packed, { temperature });
    if (mean(gaps(logprobs, base)) >= APART) break;
    await policy.backward(logprobs.map(() => 1 / logprobs.length));
    await policy.step({ learningRate: LEARNING_RATE, weightDecay: 0, maxGradNorm: 0 });
  }
  await policy.zeroGradients();
}

/** The mean distance, in nats, between the log-probs of our own sampler and those of the trainer under `policy`. */
export async function ownGap(policy: Policy, parts: ProbeParts): Promise<number> {
  const { texts, logprobs } = await sampled(policy, parts);
  return mean(gaps(logprobs, await scored(parts.model, texts, policy, parts.temperature)));
}

/** How well a server agrees with the trainer: distances of log-probs in nats per token. */
export interface Agreement {
  mean: number;
  /** 99 of 100 tokens are within this. */
  p99: number;
  tokens: number;
}

/** The tokens of a server that was asked with the probe, and its log-probs, end to end. */
async function askedOf(
  server: Server,
  name: string,
  parts: ProbeParts,
  signal?: AbortSignal,
): Promise<Sampled> {
  const answers = await Promise.all(
    completionsOf(parts).map(async (wanted) => {
      const body = bodyOf(wanted, name, `${name}-${wanted.prompt}`);
      const given = await server.complete(body, REQUEST_MS, signal);
      const read = readAnswer(given, wanted, name, parts.model.info.vocabSize);
      if ('fault' in read) throw new ServerFault('refused', `it gives wrong completions: ${read.fault}`);
      return { promptIds: wanted.promptIds, completionIds: read.ids, logprobs: read.logprobs };
    }),
  );
  return { texts: answers, logprobs: Float64Array.from(answers.flatMap(({ logprobs }) => [...logprobs])) };
}

/** Means of distances from the trainer's log-probs: with the adapter and without it, at the run's temperature and at 1. */
interface Readings {
  policy: number;
  raw: number;
  base: number;
  rawBase: number;
}

/** What is wrong, in half a sentence; null: the server agrees with the trainer. */
function faultOf(
  readings: Readings,
  tolerance: number,
  { temperature, modelName }: ProbeParts,
): string | null {
  const { policy, ...others } = readings;
  const nearest = minimum(Object.values(others));
  // Where the distribution is sharp, log-probs before and after the temperature are hardly apart.
  if (policy <= tolerance && nearest >= policy / 2) return null;
  if (nearest <= tolerance && nearest === others.raw)
    return `its log-probs are those before the temperature of ${temperature}: start it with --logprobs-mode processed_logprobs`;
  if (nearest <= tolerance)
    return 'its log-probs are those of the base model, although it has taken the adapter: start it with --enable-lora';
  return `its log-probs are ${policy.toFixed(3)} nats a token from those of the trainer on average, and at most ${tolerance.toFixed(3)} are accepted: it has other weights than ${modelName}, or another number type or quantisation`;
}

/** Prompts and completions must have room on the server. @throws ServerFault */
function checkRoom({ maxModelLen }: ServedModel, { prompts, maxNewTokens }: ProbeParts): void {
  if (maxModelLen === null) return;
  const longest = maximum(prompts.map(({ length }) => length));
  if (longest + maxNewTokens <= maxModelLen) return;
  throw new ServerFault(
    'refused',
    `its max_model_len is ${maxModelLen}, too short for prompts of ${longest} tokens and maxCompletionLength ${maxNewTokens}: start it with a longer --max-model-len`,
  );
}

/**
 * Proves a server with the probe, an adapter in a folder.
 * @param own `ownGap` of the probe
 * @throws ServerFault `refused` with what is wrong, in half a sentence
 */
export async function prove(
  server: Server,
  probe: PublishedAdapter,
  parts: ProbeParts,
  own: number,
  signal?: AbortSignal,
): Promise<{ model: ServedModel; agreement: Agreement }> {
  const served = await server.models(signal);
  checkRoom(served, parts);
  await server.load(probe.name, probe.folder, signal);
  const { texts, logprobs } = await askedOf(server, probe.name, parts, signal);
  await server.unload(probe.name, signal);
  const { model, temperature } = parts;
  const policy = await model.loadAdapter(probe.folder);
  try {
    const distances = async (of: Policy | null, at: number) =>
      gaps(logprobs, await scored(model, texts, of, at));
    const atRun = await distances(policy, temperature);
    const readings = {
      policy: mean(atRun),
      raw: mean(await distances(policy, 1)),
      base: mean(await distances(null, temperature)),
      rawBase: mean(await distances(null, 1)),
    };
    const fault = faultOf(readings, Math.max(LEAST_TOLERANCE, OWN_GAPS * own), parts);
    if (fault !== null) throw new ServerFault('refused', fault);
    const sorted = atRun.slice().sort();
    const p99 = sorted[Math.floor(0.99 * (sorted.length - 1))]!;
    return { model: served, agreement: { mean: mean(atRun), p99, tokens: atRun.length } };
  } finally {
    await policy.dispose();
  }
}
