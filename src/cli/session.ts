/** Opens engine, model and adapter as `--model`, `--adapter`, `--device` and `--dtype` request. */
import { createEngine } from '../engine/engine';
import type { Engine, Model, Policy } from '../engine/types';
import { resolveModel } from '../models';
import { required } from './command';
import type { EngineFlags } from './command';
import { showDownload } from './download';

export interface ModelFlags extends EngineFlags {
  model?: string;
  adapter?: string;
}

export interface ModelSession {
  directory: string;
  engine: Engine;
  model: Model;
  /** null: the base model. */
  policy: Policy | null;
}

/** Runs `work` on a loaded model and always frees the engine afterwards. */
export async function withModel<T>(
  flags: ModelFlags,
  signal: AbortSignal,
  work: (session: ModelSession) => Promise<T>,
): Promise<T> {
  const name = required(flags.model, '--model');
  const { directory } = await resolveModel(name, showDownload(name, signal));
  const engine = await createEngine({ device: flags.device, threads: flags.threads });
  try {
    const model = await engine.loadModel(directory, { dtype: flags.dtype, signal });
    const policy = flags.adapter === undefined ? null : await model.loadAdapter(flags.adapter);
    return await work({ directory, engine, model, policy });
  } finally {
    await engine.dispose();
  }
}
