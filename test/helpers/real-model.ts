/** SmolLM2-135M-Instruct (scripts/real/fetch-smollm2), and what others compute with it (scripts/real/references.py). */
import { join } from 'node:path';
import type { Dtype, Engine, Model } from '../../src/engine/types';
import { readJson, readSafetensors, withEngine, type Fixture } from './fixtures';

const FOLDERS = { float32: 'fp32', bfloat16: 'bf16', float64: 'fp32' } as const;

export const realModel = (dtype: Dtype = 'float32'): string =>
  join(__dirname, '..', '..', '.cache', 'real', FOLDERS[dtype]);

const REAL = join(__dirname, '..', 'fixtures', 'real');
export const REAL_ADAPTER = join(REAL, 'adapter');
export const realJson = <T>(name: string): T => readJson<T>(join('..', 'real', name));
export const realTensors = (name: string): Fixture => readSafetensors(join(REAL, name));

export const withRealModel = <T>(
  dtype: Dtype,
  use: (model: Model, engine: Engine) => Promise<T>,
): Promise<T> =>
  withEngine(async (engine) => use(await engine.loadModel(realModel(dtype), { dtype }), engine));
