/** The engine of one of several processes, and what of it and its model must be the same on all. */
import { availableParallelism } from 'node:os';
import { errorCode } from '../base/errors';
import type { DeviceName, Engine, Model } from '../engine/types';
import type { Fingerprints } from '../models';
import type { Launch } from '../ranks';
import type { Facts } from '../ranks/agree';
import { openEngine, type EngineSettings } from './policy';

/** Computes on the GPU with this process's number on its machine, or with its share of the cores. */
export async function openRankEngine(
  settings: EngineSettings,
  { localRank, localSize }: Launch,
): Promise<Engine> {
  const threads = settings.threads ?? Math.max(1, Math.floor(availableParallelism() / localSize));
  const own = { ...settings, threads };
  const device: DeviceName = `cuda:${localRank}`;
  if (settings.device === 'cuda') return openEngine({ ...own, device });
  if (settings.device !== 'auto') return openEngine(own);
  try {
    return await openEngine({ ...own, device });
  } catch (error) {
    if (errorCode(error) !== 'DEVICE') throw error;
    // No GPU, or each process sees only its own.
    return openEngine(own);
  }
}

/** Files by content: other ranks may have them in other places. @param identity by part: the model's, the judge's */
export function engineFacts(
  { deviceInfo: { device, libtorch } }: Engine,
  { info: { dtype, quantization } }: Model,
  identity: Readonly<Record<string, Fingerprints | null | undefined>>,
): Facts {
  const prints = Object.entries(identity).flatMap(([part, files]) =>
    Object.entries(files ?? {}).map(([name, print]) => [`${part} ${name}`, String(print)]),
  );
  return {
    ...(Object.fromEntries(prints) as Facts),
    dtype,
    quantization: quantization ?? 'none',
    libtorch,
    device: device.replace(/:\d+$/, ''),
  };
}
