/**
 * Files of a run that no run wrote: each gives one error with a code and the file's name, whatever it
 * contains.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { checkStoredState } from '../../src/train/state';
import { restoreOpenBatch } from '../../src/train/open-batch';
import { MetricsFile, readMetrics, readRollbacks, RunDirectory, type Tensor } from '../../src/run';
import { decodeSafetensors, encodeSafetensors } from '../../src/run/safetensors';

const root = mkdtempSync(join(tmpdir(), 'acoer-damaged-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const badInput = (what: RegExp) =>
  expect.objectContaining({ code: 'BAD_INPUT', message: expect.stringMatching(what) as string }) as Error;

test.each(['{"step":2', '[]', 'null', '{"step":"2"}', '{"step":2,"loss":[]}', '{"step":2,"loss":{"a":1}}'])(
  'metrics.jsonl with the line %s',
  async (line) => {
    const path = join(root, 'metrics.jsonl');
    const text = `{"step":1,"loss":1}\n${line}\n{"step":3}\n`;
    writeFileSync(path, text);
    expect(() => readMetrics(path)).toThrow(badInput(/metrics\.jsonl line 2 is not a line of metrics/));
    const warnings: string[] = [];
    (await MetricsFile.open(path, 3, (message) => warnings.push(message))).close();
    expect(readFileSync(path, 'utf8')).toBe('{"step":1,"loss":1}\n{"step":3}\n');
    expect(warnings).toEqual([expect.stringContaining('has lost the lines of step 2,')]);
  },
);

test.each(['{}', 'null', '[null]', '[{"number":1}]', '[{"number":1,"from":5,"to":-1,"pressure":1,"reason":"","done":true}]'])(
  'rollbacks.json containing %s',
  (text) => {
    writeFileSync(join(root, 'rollbacks.json'), text);
    expect(() => readRollbacks(new RunDirectory(root))).toThrow(badInput(/rollbacks\.json is not a list of rollbacks/));
  },
); // prettier-ignore

test.each([
  ['dtype', '"__proto__"'],
  ['dtype', '["F32"]'],
  ['shape', '[[2]]'],
  ['shape', '[-2]'],
  ['shape', '["2"]'],
  ['shape', '[2.5]'],
  ['data_offsets', '[0]'],
  ['data_offsets', '[8, 16]'],
  ['data_offsets', '[-8, 0]'],
  ['data_offsets', '{"length": 2}'],
])('safetensors with %s %s', (key, value) => {
  const entry = { dtype: '"F32"', shape: '[2]', data_offsets: '[0, 8]', [key]: value };
  const header = Buffer.from(
    `{"w":{${Object.entries(entry).map(([name, text]) => `"${name}":${text}`).join()}}}`,
  );
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = Buffer.concat([length, header, Buffer.alloc(8)]);
  expect(() => decodeSafetensors(file, 'f')).toThrow(badInput(/^f is damaged or not a safetensors file: tensor w/));
}); // prettier-ignore

function rolloutTensors(): Map<string, Tensor> {
  const tensors = new Map<string, Tensor>();
  for (const name of ['prompt_index', 'sample', 'reward', 'advantage', 'masked', 'skipped'])
    tensors.set(name, { shape: [2], data: Float64Array.of(0, 1) });
  for (const name of ['prompt_ids', 'completion_ids', 'logprobs', 'entropies', 'old_logprobs', 'ref_logprobs']) {
    const data = name.endsWith('_ids') ? Int32Array.of(1, 2, 3) : Float64Array.of(-1, -2, -3);
    tensors.set(name, { shape: [3], data });
    tensors.set(`${name}.lengths`, { shape: [2], data: Int32Array.of(1, 2) });
  }
  return tensors;
} // prettier-ignore

test.each<[string, RegExp, Tensor | null]>([
  ['advantage', /have no advantage/, null],
  ['reward', /3 values of reward for 2 samples/, { shape: [3], data: Float64Array.of(1, 2, 3) }],
  ['prompt_ids', /prompt_ids of another type/, { shape: [3], data: Float64Array.of(1, 2, 3) }],
  ['logprobs.lengths', /-5 numbers of logprobs/, { shape: [2], data: Int32Array.of(-5, 8) }],
  ['logprobs.lengths', /lack logprobs of a sample/, { shape: [2], data: Int32Array.of(-1, 3) }],
  ['entropies.lengths', /3 numbers of entropies, not 4/, { shape: [2], data: Int32Array.of(2, 2) }],
])('rollouts with a wrong %s', (name, message, tensor) => {
  const tensors = decodeSafetensors(encodeSafetensors(rolloutTensors()), 'f');
  const numbers = { tokens: 1, metrics: {}, updatesDone: 0 };
  expect(restoreOpenBatch(numbers, tensors).samples).toHaveLength(2);
  if (tensor === null) tensors.delete(name);
  else tensors.set(name, tensor);
  expect(() => restoreOpenBatch(numbers, tensors)).toThrow(badInput(message));
});

test.each([null, [], {}, { loop: null }])('a state of %j', (state) => {
  expect(() => checkStoredState('step-000001', state)).toThrow(
    badInput(/^step-000001\/state\.json is damaged: /),
  );
});
