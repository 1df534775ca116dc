/** The setting `sampler` with servers: what it is, what is refused, and the defaults that it changes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConfigInput, readConfigFile, resolveConfig, trainCommand } from '../../src/config';
import { mergeLayers } from '../../src/config/resolve';

const servers = ['http://sampler-1:8000'];
const served: ConfigInput = { sampler: { type: 'vllm', servers } };
const errorOf = (...layers: ConfigInput[]): string => {
  try {
    resolveConfig(layers);
  } catch (error) {
    expect(error).toMatchObject({ code: 'BAD_CONFIG' });
    return (error as Error).message;
  }
  return 'nothing was refused';
};

test('what is left out has a value', () => {
  expect(resolveConfig([served]).sampler).toEqual({
    ...{ type: 'vllm', servers, folder: null, requests: 128, patienceSeconds: 600 },
  });
});

test('the correction is on by default, token by token, and what is set stays', () => {
  const correction = (...layers: ConfigInput[]) => {
    const { importanceSamplingCorrection: mode, importanceSamplingClipMax: most } = resolveConfig(layers);
    return [mode, most];
  };
  expect(correction({})).toEqual([null, 3]);
  expect(correction(served)).toEqual(['token_truncate', 2]);
  expect(correction({ kvCacheDtype: 'int8' })).toEqual(['token_truncate', 2]);
  expect(correction({ kvCacheDtype: 'auto' })).toEqual([null, 3]);
  expect(correction({ kvCacheDtype: 'int8', importanceSamplingCorrection: null })).toEqual([null, 2]);
  expect(
    correction(served, { importanceSamplingCorrection: 'sequence_mask', importanceSamplingClipMax: 3 }),
  ).toEqual(['sequence_mask', 3]);
  expect(correction(served, { importanceSamplingCorrection: null })).toEqual([null, 2]);
});

test('parts are changed one by one, another kind replaces all', () => {
  const merged = (...layers: object[]) => mergeLayers(layers).sampler;
  const file = { sampler: { type: 'vllm', servers, folder: '/shared' } };
  const others = ['http://b:1'];
  expect(merged(file, { sampler: { requests: 8 } })).toEqual({ ...file.sampler, requests: 8 });
  expect(merged(file, { sampler: { type: 'vllm', servers: others } })).toEqual({
    ...file.sampler,
    servers: others,
  });
  expect(merged(file, { sampler: 'engine' })).toBe('engine');
  expect(merged(file, { sampler: { name: 'mine.mjs' } })).toEqual({ name: 'mine.mjs' });
  expect(merged({ sampler: 'engine' }, file)).toEqual(file.sampler);
});

test.each<[string, object, RegExp]>([
  ['no server', { sampler: { type: 'vllm', servers: [] } }, /sampler\.servers: must have at least 1 entry/],
  ['servers left out', { sampler: { type: 'vllm' } }, /sampler\.servers: must be an array/],
  ['no address', { sampler: { type: 'vllm', servers: ['sampler-1:8000'] } }, /sampler\.servers\.0: must be http or https addresses .*, not "sampler-1:8000"/],
  ['a password', { sampler: { type: 'vllm', servers: ['http://me:secret@a'] } }, /without user and password/],
  ['another type', { sampler: { type: 'sglang', servers } }, /sampler\.type: must be one of vllm, not "sglang"/],
  ['an unknown part', { sampler: { type: 'vllm', servers, request: 3 } }, /sampler\.request: unknown setting; did you mean `requests`/],
  ['no patience', { sampler: { type: 'vllm', servers, patienceSeconds: 0 } }, /sampler\.patienceSeconds: must be above 0/],
  ['top-p', { ...served, topP: 0.9 }, /topP: is 0\.9, but servers give log-probs over the tokens that it leaves, and the trainer over all/],
  ['top-k', { ...served, topK: 20 }, /topK: is 20, but/],
  ['min-p', { ...served, minP: 0.1 }, /minP: is 0\.1, but/],
  ['a penalty', { ...served, repetitionPenalty: 1.1 }, /repetitionPenalty: is 1\.1, but/],
  ['an int8 cache', { ...served, kvCacheDtype: 'int8' }, /kvCacheDtype: is int8, but servers keep their own cache/],
  ['speculation', { ...served, numSpeculativeTokens: 4 }, /numSpeculativeTokens: is 4, but servers speculate by themselves/],
  ['all weights', { ...served, full: true }, /full: trains all weights, but servers follow a run by LoRA adapters only/],
])('%s is refused', (_, settings, message) => expect(errorOf(settings)).toMatch(message)); // prettier-ignore

test('in a file the folder is relative to it', () => {
  const root = mkdtempSync(join(tmpdir(), 'acoer-servers-'));
  try {
    const path = join(root, 'run.yaml');
    writeFileSync(path, `sampler: { type: vllm, servers: [${servers[0]}], folder: adapters }\n`);
    expect(readConfigFile(path).sampler).toEqual({ type: 'vllm', servers, folder: join(root, 'adapters') });
  } finally {
    rmSync(root, { recursive: true });
  }
});

test('the command of a model card names no server', () => {
  const command = trainCommand(resolveConfig([{ ...served, model: 'tiny', maxSteps: 7 }]));
  expect(command).toContain('--set maxSteps=7');
  expect(command).toContain('importanceSamplingCorrection=token_truncate');
  expect(command).not.toContain('sampler-1');
});
