/**
 * A deterministic stand-in for the native engine, for tests of the loop. Its "model" has two parameters:
 * theta[0] shortens thinking, theta[1] makes answers correct. Sampling, log-probs, gradients, AdamW-like
 * steps and files all depend on them, so a loop that loses any state produces other numbers.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { NativeModelInfo, NativePolicyInfo } from '../../src/engine/binding';
import type {
  Decoder,
  Engine,
  ForwardOptions,
  GenerateCallOptions,
  GeneratedSequence,
  GenerateProgress,
  GenerateRequest,
  GenerateResult,
  GenerateStats,
  Model,
  PackedSequences,
  Policy,
  PolicyOptions,
  StepOptions,
  TokenValues,
} from '../../src/engine/types';
import { AcoerError } from '../../src/base/errors';
import { streamSeed, uniformStream } from '../../src/base/rng';
import { FAKE_IDS } from './fake-tokenizer';

/** What a generation that measured nothing reports. */
export const statsOf = (newTokens: number): GenerateStats => ({
  promptTokens: 0,
  keptTokens: 0,
  newTokens,
  decodeSteps: 0,
  proposedTokens: 0,
  acceptedTokens: 0,
  peakSlots: 0,
  prefillMs: 0,
  decodeMs: 0,
  fallback: '',
});

export type Theta = [number, number];

export type FakeCall = 'generate' | 'score' | 'accumulate' | 'step';

export interface FakeFaults {
  /**
   * Whether a number of this call is not finite: a function of its inputs, as in a real engine. `ids` are its
   * prompts and completions (for `step`: those of the last pass), `seed` is that of a generation, `theta` the
   * policy's weights.
   */
  nonFinite?: (call: FakeCall, on: { ids: Int32Array; seed: bigint | null; theta: Theta }) => boolean;
  /** `forward` runs out of memory with more tokens than this in one call. */
  trainingTokens?: number;
  /** This call of `forward` (from 1) runs out of memory. */
  trainingCall?: number;
  /** Like `trainingTokens`, for `score`. */
  scoringTokens?: number;
  /** `generate` runs out of memory with more concurrent sequences than this, when half of them have ended. */
  slots?: number;
  /** The optimiser runs out of memory in this update (from 1). */
  stepWithoutMemory?: number;
}

function needTokens(tokens: number, most: number | undefined): void {
  if (most !== undefined && tokens > most)
    throw new AcoerError('OUT_OF_MEMORY', 'the fake has no more memory');
}

/** Sensitivity of a token's log-prob to each parameter. */
const slopes = (id: number, place: number): Theta => [((id % 5) - 2) / 10, ((place % 3) - 1) / 10];

function logprobOf(id: number, place: number, theta: Theta): number {
  const [s0, s1] = slopes(id, place);
  return -3 - ((id * 7 + place) % 13) / 13 + s0 * theta[0] + s1 * theta[1];
}

const entropyOf = (id: number, place: number, theta: Theta) =>
  0.5 + ((id + place) % 7) / 20 + 0.01 * theta[0];

/** A completion: `<think>`, some letters, `</think>`, a boxed digit, end of sequence. */
function completionIds(request: GenerateRequest, sample: number, theta: Theta): Int32Array {
  const next = uniformStream(streamSeed(request.seed, 'fake', (request.firstSample ?? 0) + sample));
  const letters = Math.floor(3 + 40 * next() * Math.exp(-theta[0]));
  const digit = request.promptIds.find((id) => id >= FAKE_IDS.digit && id < FAKE_IDS.digit + 10)!;
  const greedy = request.sampling?.temperature === 0;
  const right = (greedy ? 0.4 : next()) < 1 / (1 + Math.exp(-theta[1] - 0.5));
  const answer = right ? digit : FAKE_IDS.digit + ((digit - FAKE_IDS.digit + 1) % 10);
  const thought = Array.from({ length: letters }, () => FAKE_IDS.letter + Math.floor(next() * 26));
  const closing = [
    FAKE_IDS.closeThink,
    FAKE_IDS.boxed,
    FAKE_IDS.openBrace,
    answer,
    FAKE_IDS.closeBrace,
    FAKE_IDS.eos,
  ];
  return Int32Array.from([FAKE_IDS.openThink, ...thought, ...closing]).slice(0, request.maxNewTokens);
}

/**
 * Calls `visit` for every completion token with its index in the completion and in the flat per-token arrays.
 */
function eachToken(
  { ids, offsets, promptLengths }: PackedSequences,
  visit: (id: number, place: number, flat: number, sequence: number) => void,
): number {
  let flat = 0;
  for (let b = 0; b < promptLengths.length; b++) {
    const start = offsets[b]! + promptLengths[b]!;
    for (let i = start; i < offsets[b + 1]!; i++) visit(ids[i]!, i - start, flat++, b);
  }
  return flat;
}

function valuesOf(batch: PackedSequences, theta: Theta): TokenValues {
  const count = eachToken(batch, () => undefined);
  const values = { logprobs: new Float64Array(count), entropies: new Float64Array(count) };
  eachToken(batch, (id, place, flat) => {
    values.logprobs[flat] = logprobOf(id, place, theta);
    values.entropies[flat] = entropyOf(id, place, theta);
  });
  return values;
}

export class FakePolicy implements Policy {
  theta: Theta = [0, 0];
  version = 0;
  readonly gradient = new Float64Array(2);
  private moments: Theta = [0, 0];
  private calls = 0;
  private tape: PackedSequences | null = null;
  disposed = false;
  /** The input of every forward pass. */
  readonly passes: PackedSequences[] = [];
  readonly info = {
    kind: 'lora',
    parameterCount: 2,
    rank: 1,
    alpha: 1,
    targets: [],
    matrices: [],
    shardOffsets: [0, 2],
    policy: 1,
  } as unknown as NativePolicyInfo;

  constructor(
    readonly options: PolicyOptions,
    private readonly faults: FakeFaults,
  ) {}

  /** Calls of `step` so far. */
  private steps = 0;

  async forward(batch: PackedSequences, _options?: ForwardOptions): Promise<TokenValues> {
    needTokens(batch.ids.length, this.faults.trainingTokens);
    if (++this.calls === this.faults.trainingCall) needTokens(1, 0);
    this.passes.push(batch);
    this.tape = batch;
    const values = valuesOf(batch, this.theta);
    if (this.faults.nonFinite?.('accumulate', { ids: batch.ids, seed: null, theta: this.theta })) {
      eachToken(batch, (_, place, flat, sequence) => {
        if (place === 2 && sequence === Math.min(1, batch.promptLengths.length - 1))
          values.logprobs[flat] = NaN;
      });
    }
    return values;
  }

  async backward(dLogprobs: Float64Array): Promise<void> {
    if (this.tape === null) throw new AcoerError('BAD_ARGUMENT', 'no forward pass to go back through');
    eachToken(this.tape, (id, place, flat) =>
      slopes(id, place).forEach((slope, j) => (this.gradient[j]! += slope * dLogprobs[flat]!)),
    );
    this.tape = null;
  }

  async step({ learningRate, maxGradNorm = 0 }: StepOptions) {
    if (this.faults.stepWithoutMemory === this.steps++) needTokens(1, 0);
    this.version++;
    const gradNorm = Math.hypot(...this.gradient);
    const ids = this.passes.at(-1)?.ids ?? new Int32Array();
    const refused = this.faults.nonFinite?.('step', { ids, seed: null, theta: this.theta }) === true;
    if (!refused) {
      const scale = maxGradNorm > 0 ? Math.min(1, maxGradNorm / (gradNorm + 1e-6)) : 1;
      for (const j of [0, 1] as const) {
        this.moments[j] = 0.9 * this.moments[j] + 0.1 * scale * this.gradient[j]!;
        this.theta[j] -= learningRate * this.moments[j];
      }
    }
    this.gradient.fill(0);
    return { gradNorm: refused ? NaN : gradNorm, applied: !refused };
  }

  async zeroGradients(): Promise<void> {
    this.gradient.fill(0);
  }

  async gradientSums(): Promise<Float64Array> {
    return this.gradient;
  }

  async lendShard(): Promise<Float64Array> {
    throw new AcoerError('BAD_ARGUMENT', 'a fake policy has no shards');
  }

  async takeWeights(): Promise<void> {
    throw new AcoerError('BAD_ARGUMENT', 'a fake policy has no shards');
  }

  async saveMoment(): Promise<void> {
    throw new AcoerError('BAD_ARGUMENT', 'a fake policy has no shards');
  }

  async gradients() {
    return { theta: { shape: [2], data: Float64Array.from(this.gradient) } };
  }

  async save(path: string): Promise<void> {
    writeFileSync(path, JSON.stringify(this.theta));
  }

  async restore(path: string): Promise<void> {
    this.version++;
    this.theta = JSON.parse(readFileSync(path, 'utf8')) as Theta;
  }

  async saveOptimizer(path: string): Promise<void> {
    writeFileSync(path, JSON.stringify({ moments: this.moments }));
  }

  async restoreOptimizer(path: string): Promise<void> {
    Object.assign(this, JSON.parse(readFileSync(path, 'utf8')));
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  [Symbol.asyncDispose]() {
    return this.dispose();
  }
}

const thetaOf = (policy: Policy | null | undefined): Theta =>
  (policy as FakePolicy | null | undefined)?.theta ?? [0, 0];

export class FakeModel implements Model {
  policy: FakePolicy | null = null;
  disposed = false;
  generateCalls = 0;
  scoreCalls = 0;
  readonly info = {
    model: 1,
    dtype: 'float32',
    quantization: null,
    device: 'cpu',
    parameterCount: 2,
    numLayers: 1,
    maxPositions: 4096,
    vocabSize: 46,
  } as unknown as NativeModelInfo;

  constructor(private readonly faults: FakeFaults) {}

  async createPolicy(options: PolicyOptions): Promise<FakePolicy> {
    this.policy = new FakePolicy(options, this.faults);
    return this.policy;
  }

  loadAdapter(): Promise<Policy> {
    throw new Error('the fake model loads no adapters');
  }

  openDecoder(): Promise<Decoder> {
    throw new Error('the fake model opens no decoder');
  }

  async generate(
    requests: readonly GenerateRequest[],
    options: GenerateCallOptions = {},
  ): Promise<GenerateResult> {
    this.generateCalls++;
    const sequences = requests.flatMap((request, index) =>
      Array.from({ length: request.numSamples ?? 1 }, (_, sample) => sampleOne(request, index, sample)),
    );
    // Sequences end shortest first, as in a real batch.
    const together = Math.min(options.maxSlots ?? 64, sequences.length);
    const fits = together <= (this.faults.slots ?? Infinity);
    const ended = fits ? sequences.length : Math.floor(sequences.length / 2);
    const ending = cutOff(requests, sequences, options.completeGroups)
      .sort((a, b) => a.ids.length - b.ids.length)
      .slice(0, ended);
    options.onProgress?.(halfWay(requests, sequences.slice(0, together), sequences.length));
    for (const sequence of ending) {
      await Promise.resolve();
      if (options.signal?.aborted) throw new AcoerError('CANCELLED', 'cancelled');
      this.failIfBad(requests, sequence);
      options.onSequence?.(sequence);
    }
    needTokens(together, this.faults.slots);
    const newTokens = ending.reduce((sum, sequence) => sum + sequence.ids.length, 0);
    return { sequences: ending, stats: statsOf(newTokens) };
  }

  private failIfBad(requests: readonly GenerateRequest[], { request, sample, ids }: GeneratedSequence): void {
    const { promptIds, seed, policy } = requests[request]!;
    const on = { ids: Int32Array.of(...promptIds, ...ids), seed, theta: thetaOf(policy) };
    if (!this.faults.nonFinite?.('generate', on)) return;
    const message = `generate: the logits of request ${request}, sample ${sample} are not finite at new token 3`;
    throw Object.assign(new AcoerError('NOT_FINITE', message), { request, sample, token: 3 });
  }

  async score(packed: PackedSequences, options: { policy?: Policy | null } = {}): Promise<TokenValues> {
    this.scoreCalls++;
    needTokens(packed.ids.length, this.faults.scoringTokens);
    const theta = thetaOf(options.policy);
    const values = valuesOf(packed, theta);
    if (this.faults.nonFinite?.('score', { ids: packed.ids, seed: null, theta })) values.logprobs[4] = NaN;
    return values;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  [Symbol.asyncDispose]() {
    return this.dispose();
  }
}

/** The one report of a generation: every sequence that has a slot has made half of its tokens. */
function halfWay(
  requests: readonly GenerateRequest[],
  decoded: readonly GeneratedSequence[],
  total: number,
): GenerateProgress {
  return {
    ended: 0,
    total,
    promptTokens: requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0),
    inFlight: Int32Array.from(
      decoded.flatMap(({ request, sample, ids }) => [request, sample, Math.floor(ids.length / 2)]),
    ),
  };
}

/** All sequences make a token at a time, until so many groups are complete. */
function cutOff(
  requests: readonly GenerateRequest[],
  sequences: readonly GeneratedSequence[],
  completeGroups: Int32Array | undefined,
): GeneratedSequence[] {
  if (completeGroups === undefined) return [...sequences];
  const groupOf = ({ request }: GeneratedSequence) => requests[request]!.group ?? 0;
  const lengths = Array.from(completeGroups, (_, group) =>
    Math.max(0, ...sequences.filter((one) => groupOf(one) === group).map(({ ids }) => ids.length)),
  );
  const enough = (steps: number) =>
    completeGroups.every(
      (count, i) => lengths.slice(0, i + 1).filter((length) => length <= steps).length >= count,
    );
  const steps = [0, ...lengths].sort((a, b) => a - b).find(enough)!;
  return sequences.map((sequence) => {
    if (sequence.ids.length <= steps) return sequence;
    const [ids, logprobs] = [sequence.ids.slice(0, steps), sequence.logprobs.slice(0, steps)];
    return { ...sequence, ids, logprobs, entropies: sequence.entropies.slice(0, steps), finish: 'partial' };
  });
}

function sampleOne(request: GenerateRequest, index: number, sample: number): GeneratedSequence {
  const theta = thetaOf(request.policy);
  const { firstToken = 0, maxNewTokens } = request;
  const whole = completionIds({ ...request, maxNewTokens: firstToken + maxNewTokens }, sample, theta);
  // Other weights may make a shorter completion than is there already.
  const rest = whole.slice(firstToken);
  const ids = rest.length > 0 ? rest : Int32Array.of(FAKE_IDS.eos);
  return {
    request: index,
    sample,
    ids,
    logprobs: Float64Array.from(ids, (id, place) => logprobOf(id, firstToken + place, theta)),
    entropies: Float64Array.from(ids, (id, place) => entropyOf(id, firstToken + place, theta)),
    finish: ids.at(-1) === FAKE_IDS.eos ? 'stop' : 'length',
  };
}

export class FakeEngine implements Engine {
  readonly deviceInfo = {
    device: 'cpu',
    name: 'fake',
    threads: 1,
    totalBytes: 0,
    freeBytes: 0,
    libtorch: 'none',
  };
  model: FakeModel | null = null;
  disposed = false;

  constructor(private readonly faults: FakeFaults = {}) {}

  async loadModel(): Promise<FakeModel> {
    this.model = new FakeModel(this.faults);
    return this.model;
  }

  async measureCeilings() {
    return { readBytesPerSecond: 1e9, matmulFlopsPerSecond: 1e9 };
  }

  async memory() {
    return {
      engineBytes: 1,
      residentBytes: 2,
      peakResidentBytes: 3,
      deviceFreeBytes: 0,
      deviceTotalBytes: 0,
      tensorBytes: null,
      peakTensorBytes: null,
    };
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }

  [Symbol.asyncDispose]() {
    return this.dispose();
  }
}
