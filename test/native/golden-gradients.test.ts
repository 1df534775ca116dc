import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Model, Policy } from '../../src/engine/types';
import {
  FIXTURES,
  adapterDirectory,
  differingTensors,
  modelDirectory,
  packed,
  readJson,
  readSafetensors,
  under,
  values,
  withEngine,
} from '../helpers/fixtures';
import { safetensors } from '../helpers/random-model';
import { surrogatePass } from '../helpers/training';

const ADAPTERS = readdirSync(join(FIXTURES, 'adapters')).map(
  (name) =>
    [
      name,
      readJson<{ base_model_name_or_path: string }>(`adapters/${name}/adapter_config.json`)
        .base_model_name_or_path,
    ] as const,
);
const WHOLE_MODELS = readdirSync(join(FIXTURES, 'gradients'))
  .filter((name) => name.startsWith('full-'))
  .map((name) => name.slice('full-'.length, -'.safetensors'.length));
/** float32: PEFT's own gradients are 2e-6 from float64 here (largest over a tensor's largest), ours may double it. */
const FLOAT32 = 1e-4;
/** float64: the same sums in another order. */
const FLOAT64 = 1e-9;

/** The gradients of -1/N sum A logp on a fixture's batch. */
async function gradientsOf(policy: Policy, path: string) {
  const fixture = readSafetensors(path);
  await surrogatePass(policy, packed(fixture), values(fixture, 'advantages'));
  return { gradients: await policy.gradients(), fixture };
}

describe('gradients', () => {
  test('the fixtures cover every family', () => {
    expect(ADAPTERS).toHaveLength(28);
    expect(WHOLE_MODELS).toHaveLength(15);
  });

  test.each(ADAPTERS)("adapter %s on %s: equal to PEFT's", async (adapter, name) => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(name), { dtype: 'float32' });
      const policy = await model.loadAdapter(adapterDirectory(adapter));
      const { gradients, fixture } = await gradientsOf(policy, `gradients/${adapter}.safetensors`);
      expect(differingTensors(gradients, under(fixture, 'float32.'), FLOAT32)).toEqual([]);
    });
  });

  test('adapter all-r4 in float64: equal to the clean reference', async () => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float64' });
      const policy = await model.loadAdapter(adapterDirectory('all-r4'));
      const { gradients, fixture } = await gradientsOf(policy, 'gradients/all-r4.safetensors');
      expect(differingTensors(gradients, under(fixture, 'float64.'), FLOAT64)).toEqual([]);
    });
  });

  test.each(WHOLE_MODELS)("whole model %s: equal to autograd's", async (name) => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(name), { dtype: 'float32' });
      const policy = await model.createPolicy({ kind: 'full' });
      const { gradients, fixture } = await gradientsOf(policy, `gradients/full-${name}.safetensors`);
      expect(differingTensors(gradients, under(fixture, 'float32.'), FLOAT32)).toEqual([]);
    });
  });
});

/**
 * Central differences with Richardson's extrapolation have an error of O(h^4) = 1e-12 for h = 2^-10; the loss is about
 * 1 and known to 1e-15, so the quotient is known to 1e-12 or so; the third and fifth derivatives add a few digits.
 */
const FINITE_DIFFERENCE = 1e-6;
const STEP = 2 ** -10;

/** An adapter file whose values are multiples of 2^-16 below 2^3, so that value + STEP / 2 is exact in float32. */
interface AdapterFile {
  names: string[];
  shapes: number[][];
  data: Float32Array[];
}

function roundedAdapter(adapter: string): AdapterFile {
  const tensors = Object.entries(
    readSafetensors(join(adapterDirectory(adapter), 'adapter_model.safetensors')),
  );
  return {
    names: tensors.map(([name]) => name),
    shapes: tensors.map(([, tensor]) => tensor.shape),
    data: tensors.map(([, tensor]) =>
      Float32Array.from(tensor.data, (x) => Math.round(x * 2 ** 16) / 2 ** 16),
    ),
  };
}

function writeAdapter(path: string, file: AdapterFile): void {
  const entries = file.names.map((name, i) => ({
    name,
    dtype: 'F32',
    shape: file.shapes[i]!,
    data: Buffer.from(file.data[i]!.buffer),
  }));
  writeFileSync(path, safetensors(entries));
}

describe('finite differences in float64', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'acoer-gradients-'));
    const config = readFileSync(join(adapterDirectory('all-r4'), 'adapter_config.json'));
    writeFileSync(join(directory, 'adapter_config.json'), config);
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** The smooth surrogate -1/N sum A exp(logp - old), by scoring: no gradient code takes part. */
  const fixture = readSafetensors('gradients/all-r4.safetensors');
  const advantages = values(fixture, 'advantages');
  async function surrogate(model: Model, policy: Policy, old: Float64Array): Promise<number> {
    const { logprobs } = await model.score(packed(fixture), { policy });
    const terms = logprobs.map((logprob, t) => advantages[t]! * Math.exp(logprob - old[t]!));
    return -terms.reduce((a, b) => a + b, 0) / advantages.length;
  }

  test('one entry of every adapter tensor', async () => {
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory('tied-kv2'), { dtype: 'float64' });
      const file = roundedAdapter('all-r4');
      const path = join(directory, 'adapter_model.safetensors');
      writeAdapter(path, file);
      const policy = await model.loadAdapter(directory);
      const now = (await model.score(packed(fixture), { policy })).logprobs;
      const old = now.map((logprob, t) => logprob - 0.1 * Math.sin(t));
      const loss = await surrogatePass(policy, packed(fixture), advantages, old);
      expect(Math.abs(loss - (await surrogate(model, policy, old)))).toBeLessThan(1e-12);
      const gradients = await policy.gradients();

      const at = async (tensor: number, entry: number, shift: number): Promise<number> => {
        const kept = file.data[tensor]![entry]!;
        file.data[tensor]![entry] = kept + shift;
        expect(file.data[tensor]![entry] - kept).toBe(shift);
        writeAdapter(path, file);
        file.data[tensor]![entry] = kept;
        await policy.restore(path);
        return surrogate(model, policy, old);
      };
      const wrong: string[] = [];
      for (let i = 0; i < file.names.length; i++) {
        const entry = (i * 7919) % file.data[i]!.length;
        const slope = async (h: number): Promise<number> =>
          ((await at(i, entry, h)) - (await at(i, entry, -h))) / (2 * h);
        const expected = (4 * (await slope(STEP / 2)) - (await slope(STEP))) / 3;
        const gradient = gradients[file.names[i]!]!.data;
        const scale = gradient.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
        if (!(Math.abs(gradient[entry]! - expected) <= FINITE_DIFFERENCE * scale))
          wrong.push(`${file.names[i]}[${entry}]: ${gradient[entry]}, finite difference ${expected}`);
      }
      expect(wrong).toEqual([]);
    }, 1); // hundreds of tiny passes: a second thread only waits
  });
});
