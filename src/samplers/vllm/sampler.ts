/** Samples on unpatched servers of vLLM, or of `acoer serve`, over HTTP: each version of the policy is published as a LoRA adapter. */
import { randomBytes } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolders } from '../../base/folders';
import type { Model, Policy } from '../../engine/types';
import type { SampledCompletion, SamplePrompt, Sampler, SampleSettings, SampleStats } from '../../sampling';
import { samplerFailed } from './failures';
import { ownGap, prove, type ProbeParts, trainApart } from './handshake';
import { ServerPool, type PublishedAdapter } from './pool';
import type { Server } from './server';
import { type ServedModel, wantedOf } from './wire';

/** Servers that may still start when a run begins are waited for this long. */
const OPEN_MS = 30_000;
/** Versions that servers keep: the one that is sampled from, and the one before. */
const KEPT_VERSIONS = 2;
/** For servers to unload adapters when the run ends. */
const GOODBYE_MS = 2_000;
/** Two completions of one prompt that are equal and at least this long are no chance. */
const LONG_TOKENS = 64;

export interface VllmSettings {
  servers: readonly string[];
  /** Where adapters are published: a path that means the same to the servers. */
  folder: string;
  /** The folder is this run's alone: it begins empty, and goes when the run ends. */
  ownFolder: boolean;
  /** Most requests in flight at one server. */
  requests: number;
  /** How long a run waits for a server when none answers. */
  patienceMs: number;
  key: string | null;
}

export interface VllmParts {
  model: Model;
  policy: Policy;
  /** Writes a policy as a folder in PEFT's layout. */
  saveAdapter: (policy: Policy, folder: string) => Promise<void>;
  /** A policy of the same shape as the one that is trained. */
  newPolicy: () => Promise<Policy>;
  /** What the servers are proved with. */
  probe: Omit<ProbeParts, 'model'>;
  /** Is told in a sentence what was found. */
  tell: (message: string) => void;
  warn: (message: string) => void;
}

export class VllmSampler implements Sampler {
  private readonly pool: ServerPool;
  /** Part of the names of adapters, so that those of another run, or of an earlier start of this one, are others. */
  private readonly id = `acoer-${randomBytes(4).toString('hex')}`;
  private readonly probe: PublishedAdapter;
  private own = 0;
  private published: (PublishedAdapter & { version: number })[] = [];
  private toldOfSeeds = false;

  constructor(
    private readonly settings: VllmSettings,
    private readonly parts: VllmParts,
  ) {
    const { servers, key, requests, patienceMs } = settings;
    const { vocabSize } = parts.model.info;
    this.pool = new ServerPool({
      ...{ servers, key, requests, patienceMs, vocabSize },
      prove: (server, signal) => this.prove(server, signal),
      warn: parts.warn,
    });
    this.probe = { name: `${this.id}-probe`, folder: join(settings.folder, `${this.id}-probe`) };
  }

  /** @throws BAD_CONFIG for a server that samples something else; SAMPLER_LOST if none answers */
  async open(signal?: AbortSignal): Promise<void> {
    const { folder, ownFolder } = this.settings;
    // What a killed process has left.
    if (ownFolder) rmSync(folder, { recursive: true, force: true });
    makeFolders(folder);
    const policy = await this.parts.newPolicy();
    try {
      const probing = this.probing;
      await trainApart(policy, probing);
      await this.parts.saveAdapter(policy, this.probe.folder);
      this.own = await ownGap(policy, probing);
    } finally {
      await policy.dispose();
    }
    await this.pool.open(Math.min(OPEN_MS, this.settings.patienceMs), signal);
  }

  async follow(version: number): Promise<void> {
    if (this.published.at(-1)?.version === version) return;
    const name = `${this.id}-v${version}`;
    const folder = join(this.settings.folder, name);
    await this.parts.saveAdapter(this.parts.policy, folder);
    this.published.push({ name, folder, version });
    const old = this.published.splice(0, Math.max(0, this.published.length - KEPT_VERSIONS));
    await this.pool.unloadAllBut(this.published.map((one) => one.name));
    for (const one of old) rmSync(one.folder, { recursive: true, force: true });
  }

  async sample(
    prompts: readonly SamplePrompt[],
    { sampling, stopIds, signal }: SampleSettings,
    onCompletion: (completion: SampledCompletion) => void,
  ): Promise<SampleStats> {
    const adapter = this.published.at(-1)!;
    this.checkRoom(prompts);
    const wanted = wantedOf(prompts, sampling.temperature ?? 1, stopIds);
    const batch = new AbortController();
    // Each request listens.
    setMaxListeners(0, batch.signal);
    const onAbort = () => batch.abort(signal!.reason);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted === true) onAbort();
    const stats = { newTokens: 0, retries: 0 };
    const texts = new Set<string>();
    const all = wanted.map(async (one) => {
      const { answered, retries } = await this.pool.complete(one, adapter, batch.signal);
      const { ids } = answered;
      stats.newTokens += ids.length;
      stats.retries += retries;
      this.noteSeed(texts, one.prompt, ids);
      onCompletion({ prompt: one.prompt, sample: one.sample, ...answered, entropies: null });
    });
    try {
      await Promise.all(all);
      return stats;
    } catch (error) {
      batch.abort(error);
      throw error;
    } finally {
      await Promise.allSettled(all);
      signal?.removeEventListener('abort', onAbort);
    }
  }

  /** Ends connections, and takes adapters and their folders away. */
  async dispose(): Promise<void> {
    await this.pool.unloadAllBut([], AbortSignal.timeout(GOODBYE_MS));
    await this.pool.close();
    const { folder, ownFolder } = this.settings;
    const made = ownFolder ? [folder] : [...this.published, this.probe].map((one) => one.folder);
    for (const path of made) rmSync(path, { recursive: true, force: true });
    this.published = [];
  }

  private get probing(): ProbeParts {
    return { ...this.parts.probe, model: this.parts.model };
  }

  /** @throws ServerFault */
  private async prove(server: Server, signal?: AbortSignal): Promise<ServedModel> {
    const { model, agreement } = await prove(server, this.probe, this.probing, this.own, signal);
    const { mean, p99, tokens } = agreement;
    this.parts.tell(
      `${server.address}: log-probs ${mean.toFixed(4)} nats from the trainer's on average, 99% of ${tokens} within ${p99.toFixed(3)} (our own sampler: ${this.own.toFixed(4)})`,
    );
    return model;
  }

  private checkRoom(prompts: readonly SamplePrompt[]): void {
    const { maxModelLen } = this.pool;
    if (maxModelLen === null) return;
    prompts.forEach(({ ids, maxNewTokens }, i) => {
      if (ids.length + maxNewTokens <= maxModelLen) return;
      throw samplerFailed(
        `prompt ${i} of the batch has ${ids.length} tokens, which with maxCompletionLength ${maxNewTokens} are more than the servers' max_model_len of ${maxModelLen}; start them with a longer one, or set maxPromptLength`,
      );
    });
  }

  /** A server that ignores seeds, or has one for all, gives a group several equal completions. */
  private noteSeed(texts: Set<string>, prompt: number, ids: Int32Array): void {
    if (ids.length < LONG_TOKENS || this.toldOfSeeds) return;
    const text = `${prompt} ${ids.join(' ')}`;
    if (!texts.has(text)) {
      texts.add(text);
      return;
    }
    this.toldOfSeeds = true;
    this.parts.warn(
      `Two completions of one prompt are equal in all of their ${ids.length} tokens: the sampler may ignore seeds, or the policy has become deterministic.`,
    );
  }
}
