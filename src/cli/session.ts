/** Opens engine, model and adapter as `--model`, `--adapter`, `--device`, `--dtype` and `--quantization` request. */
import { createEngine } from '../engine/engine';
import type { Engine, Model, Policy } from '../engine/types';
import { resolveModel } from '../models';
import type { Tokenizer } from '../tokenizer';
import { baseModelOf, type BaseModel, checkBaseTokenizer, loadChecked } from '../life/base-model';
import { type EngineFlags, required } from './command';
import { showDownload } from './download';

export interface ModelFlags extends EngineFlags {
  model?: string;
  adapter?: string;
  /** Folders of adapters that `work` will load; default: that of `adapter`. */
  trained?: readonly string[];
  /** Default: as the flags say. */
  openEngine?: (() => Promise<Engine>) | undefined;
}

export interface ModelSession {
  directory: string;
  engine: Engine;
  model: Model;
  /** null: the base model. */
  policy: Policy | null;
  /** What the adapters record of the model they were trained on. */
  bases: readonly BaseModel[];
}

/** Refuses a tokenizer or a chat template that the session's adapters were not trained with. @throws BAD_INPUT */
export function checkTokenizer({ bases, directory }: ModelSession, tokenizer: Tokenizer): void {
  for (const base of bases) checkBaseTokenizer(base, directory, tokenizer);
}

/** Runs `work` on a loaded model and always frees the engine afterwards. */
export async function withModel<T>(
  flags: ModelFlags,
  signal: AbortSignal,
  work: (session: ModelSession) => Promise<T>,
): Promise<T> {
  const name = required(flags.model, '--model');
  const trained = flags.trained ?? (flags.adapter === undefined ? [] : [flags.adapter]);
  const bases = trained.flatMap((folder) => baseModelOf(folder) ?? []);
  const { directory } = await resolveModel(name, showDownload(name, signal));
  const { device, threads, openEngine = () => createEngine({ device, threads }) } = flags;
  await using engine = await openEngine();
  const model = await loadChecked(engine, directory, bases, {
    dtype: flags.dtype,
    quantization: flags.quantization,
    signal,
  });
  const policy = flags.adapter === undefined ? null : await model.loadAdapter(flags.adapter);
  return await work({ directory, engine, model, policy, bases });
}
