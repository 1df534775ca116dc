/** A run whose completions servers sample: what it needs of the run to be made. */
import { resolve } from 'node:path';
import { servedBy, type Config, type VllmSetting } from '../config';
import { badUsage } from '../base/errors';
import type { Model, Policy } from '../engine/types';
import { createPolicy } from '../life/policy';
import { runAdapterConfig, writeDirectoryAtomic, writeWeights } from '../run';
import { VllmSampler } from '../samplers/vllm';
import type { Sampler } from '../sampling';
import { streamSeed } from '../base/rng';

/** Prompts that servers are proved with. */
export const PROBES = 4;

/** Where adapters are published by default, and who is told. */
export interface ServedOptions {
  /** In the run's folder. */
  folder: string;
  tell: (message: string) => void;
  warn: (message: string) => void;
}

interface Loaded {
  model: Model;
  policy: Policy;
}

/** @throws BAD_CONFIG for a run of several processes whose completions servers sample, or earlier weights, too */
export function checkAlone(config: Config, ranks: number): void {
  if (ranks === 1) return;
  if (servedBy(config) !== null)
    throw badUsage('Servers sample for a run of one process: leave out --nproc, or set sampler to engine.');
  if (config.groupsInFlight !== null)
    throw badUsage('groupsInFlight is for a run of one process: leave out --nproc, or set it to null.');
}

const KEY = 'ACOER_SAMPLER_KEY';

/** @throws BAD_CONFIG */
function keyOf(env: NodeJS.ProcessEnv): string | null {
  const key = env[KEY];
  if (key === undefined || key === '') return null;
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw badUsage(`${KEY} contains a space or another character that no key has.`);
}

/** @throws BAD_CONFIG for a key that is none */
export function servedSampler(
  { servers, folder, requests, patienceSeconds }: VllmSetting,
  config: Config,
  { model, policy }: Loaded,
  prompts: readonly Int32Array[],
  { folder: ownFolder, tell, warn }: ServedOptions,
): Sampler {
  const settings = {
    ...{ servers, requests, key: keyOf(process.env) },
    folder: resolve(folder ?? ownFolder),
    ownFolder: folder === null,
    patienceMs: 1000 * patienceSeconds,
  };
  const adapterConfig = runAdapterConfig(config, policy, model);
  return new VllmSampler(settings, {
    ...{ model, policy, tell, warn },
    saveAdapter: (saved, path) =>
      writeDirectoryAtomic(path, (directory) => writeWeights(directory, saved, adapterConfig)),
    // Its first weights must not be those of the run, from whose seed they come.
    newPolicy: () =>
      createPolicy(model, {
        ...config,
        loraDropout: 0,
        seed: Number(streamSeed(config.seed, 'probe') >> 12n),
      }),
    probe: {
      ...{ modelName: config.model, prompts, temperature: config.temperature },
      maxNewTokens: config.maxCompletionLength,
    },
  });
}
