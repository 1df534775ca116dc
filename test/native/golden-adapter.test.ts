import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readAdapterShape, readModelSpec } from '../../src/models';
import { adapterConfig, peftTargets } from '../../src/run/final';
import {
  FIXTURES,
  adapterDirectory,
  maxDifference,
  modelDirectory,
  readJson,
  readSafetensors,
  values,
  withEngine,
} from '../helpers/fixtures';

interface AdapterConfig {
  base_model_name_or_path: string;
  r: number;
  lora_alpha: number;
  use_rslora: boolean;
  target_modules: string | string[];
}
const ADAPTERS = readdirSync(join(FIXTURES, 'adapters')).map(
  (name) => [name, readJson<AdapterConfig>(`adapters/${name}/adapter_config.json`)] as const,
);

/** Those that adapt the same modules in every layer, all with one rank and alpha. */
const UNIFORM = ADAPTERS.filter(([name]) => !name.startsWith('peft-') || name === 'peft-all-linear');

/** A safetensors header without the places of the data: names, types, shapes and metadata. */
function headerOf(path: string): Record<string, unknown> {
  const file = readFileSync(path);
  const header = JSON.parse(file.toString('utf8', 8, 8 + Number(file.readBigUInt64LE(0)))) as Record<
    string,
    Record<string, unknown>
  >;
  return Object.fromEntries(
    Object.entries(header).map(([name, { data_offsets: _place, ...rest }]) => [name, rest]),
  );
}

describe("adapter files equal PEFT's", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'acoer-adapter-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  test.each(UNIFORM)('%s: the same adapter_config.json', (_, config) => {
    const { r, lora_alpha, use_rslora: useRslora, target_modules, base_model_name_or_path } = config;
    const lora = { loraRank: r, loraAlpha: lora_alpha, useRslora, loraDropout: 0 };
    const shape = { ...lora, targetModules: target_modules as string[] };
    expect(adapterConfig(shape, base_model_name_or_path)).toEqual(config);
  });

  test.each(ADAPTERS)('%s: what we write is read as the same adapter', async (name, config) => {
    const { r: loraRank, lora_alpha: loraAlpha, use_rslora: useRslora, base_model_name_or_path } = config;
    const spec = await readModelSpec(modelDirectory(base_model_name_or_path));
    const theirs = await readAdapterShape(adapterDirectory(name), spec.numLayers);
    const shape = { loraRank, loraAlpha, useRslora, loraDropout: 0, targetModules: theirs.targetModules };
    const targets = peftTargets(shape, theirs.matrices, spec.numLayers);
    const written = adapterConfig(shape, base_model_name_or_path, targets);
    expect(Object.keys(written)).toEqual(Object.keys(config));
    copyFileSync(
      join(adapterDirectory(name), 'adapter_model.safetensors'),
      join(directory, 'adapter_model.safetensors'),
    );
    writeFileSync(join(directory, 'adapter_config.json'), JSON.stringify(written));
    expect(await readAdapterShape(directory, spec.numLayers)).toEqual(theirs);
  });

  test.each(ADAPTERS)('%s: loaded and saved, the same tensors bit for bit', async (name, config) => {
    const path = join(directory, 'adapter_model.safetensors');
    const theirs = join(adapterDirectory(name), 'adapter_model.safetensors');
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(config.base_model_name_or_path), {
        dtype: 'float32',
      });
      const policy = await model.loadAdapter(adapterDirectory(name));
      expect(policy.info).toMatchObject({ kind: 'lora', rank: config.r, alpha: config.lora_alpha });
      const modules = Object.keys(readSafetensors(theirs)).map((tensor) => tensor.split('.').at(-3));
      expect([...policy.info.targets].sort()).toEqual([...new Set(modules)].sort());
      expect(policy.info.matrices).toHaveLength(modules.length / 2);
      await policy.save(path);
    });
    expect(headerOf(path)).toEqual(headerOf(theirs));
    const expected = readSafetensors(theirs);
    for (const [tensor, { data }] of Object.entries(readSafetensors(path)))
      expect(maxDifference(data, values(expected, tensor))).toBe(0);
  });

  test.each(ADAPTERS)('%s: a new adapter has the same tensors; A uniform, B zero', async (name, config) => {
    const path = join(directory, 'adapter_model.safetensors');
    await withEngine(async (engine) => {
      const model = await engine.loadModel(modelDirectory(config.base_model_name_or_path), {
        dtype: 'float32',
      });
      const { targetModules, matrices } = await readAdapterShape(
        adapterDirectory(name),
        model.info.numLayers,
      );
      const own = UNIFORM.some(([uniform]) => uniform === name) ? { targetModules } : { matrices };
      const shape = { rank: config.r, alpha: config.lora_alpha, ...own, seed: 5n };
      await (await model.createPolicy({ kind: 'lora', ...shape })).save(path);
    });
    expect(headerOf(path)).toEqual(headerOf(join(adapterDirectory(name), 'adapter_model.safetensors')));
    const scaled: number[] = [];
    for (const [tensor, { shape, data }] of Object.entries(readSafetensors(path)))
      if (tensor.includes('lora_B')) expect(data.every((value) => value === 0)).toBe(true);
      // PEFT's kaiming_uniform_ with a = sqrt(5): bound 1 / sqrt(in).
      else scaled.push(...data.map((value) => value * Math.sqrt(shape[1]!)));
    const n = scaled.length;
    const mean = scaled.reduce((a, b) => a + b, 0) / n;
    const variance = scaled.reduce((a, b) => a + (b - mean) ** 2, 0) / n;
    expect(Math.max(...scaled.map(Math.abs))).toBeLessThanOrEqual(1 + 1e-6);
    // Uniform on [-1, 1): mean 0 (deviation 0.58), variance 1/3 (deviation 0.30); five deviations of the average.
    expect(Math.abs(mean)).toBeLessThan((5 * 0.58) / Math.sqrt(n));
    expect(Math.abs(variance - 1 / 3)).toBeLessThan((5 * 0.3) / Math.sqrt(n));
  });
});
