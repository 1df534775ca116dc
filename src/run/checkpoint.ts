/** Checkpoints: a folder that exists is whole. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Policy } from '../engine/types';
import { AcoerError } from '../errors';
import { writeDirectoryAtomic } from './atomic';
import type { RunDirectory } from './directory';

const ADAPTER = 'adapter_model.safetensors';
const ADAPTER_CONFIG = 'adapter_config.json';
const OPTIMIZER = 'optimizer.safetensors';
const STATE = 'state.json';
const STATE_VERSION = 2;

const writeJson = (path: string, value: unknown) =>
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);

/** Writes an adapter as PEFT lays it out; the folder appears when it is whole. */
export function saveAdapter(path: string, policy: Policy, adapterConfig: unknown): Promise<void> {
  return writeDirectoryAtomic(path, async (directory) => {
    await policy.save(join(directory, ADAPTER));
    writeJson(join(directory, ADAPTER_CONFIG), adapterConfig);
  });
}

/**
 * Writes the checkpoint of `step` and removes the oldest above `keep` (null: none), save that of `spare`.
 * @param state plain JSON: everything besides weights and optimiser that the next step depends on
 */
export async function saveCheckpoint(
  run: RunDirectory,
  step: number,
  policy: Policy,
  content: { adapterConfig: unknown; state: object },
  keep: number | null,
  spare: number | null = null,
): Promise<void> {
  await writeDirectoryAtomic(run.checkpoint(step), async (directory) => {
    await policy.save(join(directory, ADAPTER));
    await policy.saveOptimizer(join(directory, OPTIMIZER));
    writeJson(join(directory, ADAPTER_CONFIG), content.adapterConfig);
    writeJson(join(directory, STATE), { version: STATE_VERSION, ...content.state });
  });
  if (keep === null) return;
  for (const old of run.checkpointSteps().slice(0, -keep)) {
    if (old !== spare) rmSync(run.checkpoint(old), { recursive: true, force: true });
  }
}

/** The state of the checkpoint of `step` (default: the newest), or null when there is none yet. */
export function readCheckpointState(
  run: RunDirectory,
  step = run.checkpointSteps().at(-1),
): { step: number; state: unknown } | null {
  if (step === undefined) return null;
  const path = join(run.checkpoint(step), STATE);
  const state = run.readJson(path) as { version?: unknown };
  if (state.version !== STATE_VERSION) {
    throw new AcoerError(
      'BAD_INPUT',
      `${path} has version ${String(state.version)}; this acoer reads version ${STATE_VERSION}.`,
    );
  }
  return { step, state };
}

/** Brings a fresh policy to where the checkpoint of `step` left it. */
export async function restorePolicy(run: RunDirectory, step: number, policy: Policy): Promise<void> {
  const directory = run.checkpoint(step);
  await policy.restore(join(directory, ADAPTER));
  await policy.restoreOptimizer(join(directory, OPTIMIZER));
}
