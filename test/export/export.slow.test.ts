/** `acoer export` as a user calls it, on a run of the embedded model. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { acoer, ended, linesFile, spawnAcoer } from '../helpers/cli';
import { readSafetensors } from '../helpers/fixtures';

interface Report {
  type: string;
  step: number;
  proof: { prompts: number; sameAnswers: number; tokens: number; kl: number; maxLogprobError: number };
  matrices: { name: string; errorRms: number; updateRms: number }[];
}

let folder: string;
let run: string;
const place = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-export-'));
  run = place('run');
  const sizes = ['--max-steps', '6', '--set', 'evalProblems=40', '--set', 'evalSampledProblems=0'];
  const { code, stderr } = await acoer('train', ...sizes, '--set', 'saveSteps=3', '--out', run);
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const exported = (...words: string[]) => exportedFrom(run, ...words);

async function exportedFrom(from: string, ...words: string[]): Promise<Report> {
  const { code, stdout, stderr } = await acoer('export', from, ...words, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: 'asking the run\nwriting\nasking the export\n' });
  return JSON.parse(stdout) as Report;
}

test('a merged folder answers as the run does, in float32 with the same log-probs', async () => {
  const { proof, matrices, step } = await exported('--merge', place('merged'), '--dtype', 'float32');
  expect(step).toBe(6);
  expect(proof).toMatchObject({ prompts: 32, sameAnswers: 32 });
  expect(proof.maxLogprobError).toBeLessThan(1e-5);
  expect(matrices).toHaveLength(21);
  expect(readdirSync(place('merged')).sort()).toEqual(
    ['README.md', 'config.json', 'export.json', 'generation_config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'], // prettier-ignore
  );
  const card = readFileSync(join(place('merged'), 'README.md'), 'utf8');
  expect(card).toContain('library_name: transformers');
  expect(card).toContain('| KL(run, export) per token, nats |');
  expect(card).not.toContain(folder);
  expect(readFileSync(join(place('merged'), 'export.json'), 'utf8')).not.toContain(folder);
  const asked = ['--temperature', '0', '--prompt', '6-3-4 mod 10?'];
  const whole = await acoer('generate', '--model', place('merged'), ...asked);
  const apart = await acoer('generate', '--model', 'tiny', '--adapter', join(run, 'final'), ...asked);
  expect(whole).toEqual(apart);
});

test('a checkpoint can be exported, and rounding is told', async () => {
  const { proof, matrices, step } = await exported('--merge', place('at-3'), '--step', '3');
  expect(step).toBe(3);
  expect(proof.sameAnswers).toBeGreaterThanOrEqual(31);
  expect(proof.kl).toBeLessThan(1e-3);
  for (const { errorRms, updateRms } of matrices) expect(errorRms).toBeGreaterThan(0.01 * updateRms);
});

test.each([
  ['f32', ['--dtype', 'float32']],
  ['lora', ['--lora']],
])('GGUF as %s answers as the run does', async (type, words) => {
  const { proof, type: told } = await exported('--gguf', place(`${type}.gguf`), ...words);
  expect(told).toBe(type);
  expect(proof).toMatchObject({ prompts: 32, sameAnswers: 32 });
  expect(proof.maxLogprobError).toBeLessThan(1e-5);
});

describe('runs of other kinds', () => {
  test('all weights: float32 gives their log-probs, --step those of a checkpoint, and there is no LoRA', async () => {
    const full = place('full');
    const sizes = [
      '--max-steps',
      '4',
      '--set',
      'full=true',
      '--set',
      'learningRate=1e-4',
      '--set',
      'saveSteps=2',
    ];
    const quiet = ['--set', 'evalProblems=8', '--set', 'evalSampledProblems=0', '--out', full];
    expect((await acoer('train', ...sizes, ...quiet)).code).toBe(0);
    const { proof, matrices, step } = await exportedFrom(
      full,
      '--merge',
      place('full-4'),
      '--dtype',
      'float32',
    );
    expect({ step, matrices, same: proof.sameAnswers }).toEqual({
      step: 4,
      matrices: [],
      same: proof.prompts,
    });
    expect(proof.maxLogprobError).toBeLessThan(1e-5);
    const earlier = await exportedFrom(
      full,
      '--gguf',
      place('full-2.gguf'),
      '--step',
      '2',
      '--dtype',
      'float32',
    );
    expect(earlier.step).toBe(2);
    expect(earlier.proof.maxLogprobError).toBeLessThan(1e-5);
    const [merged, trained] = [place('full-4'), join(full, 'final')].map((path) =>
      readSafetensors(join(path, 'model.safetensors')),
    );
    expect(merged).toEqual(trained);
    const { code, stderr } = await acoer('export', full, '--gguf', place('none.gguf'), '--lora');
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('trained all weights, so it has no LoRA; export the whole model.'),
    });
    expect(existsSync(place('none.gguf'))).toBe(false);
  });

  test('acoer sft', async () => {
    const supervised = place('sft');
    const messages = [
      { role: 'user', content: '1+2 mod 10?' },
      { role: 'assistant', content: '<think>\n1+2=3\n</think>\n\n\\boxed{3}' },
    ];
    const data = linesFile(Array.from({ length: 8 }, () => ({ messages })));
    const words = ['--model', 'tiny', '--dataset', data, '--max-steps', '4', '--out', supervised];
    expect((await acoer('sft', ...words)).code).toBe(0);
    const { proof, step } = await exportedFrom(
      supervised,
      '--merge',
      place('sft-merged'),
      '--dtype',
      'float32',
    );
    // It keeps no completions, so that common questions are asked.
    expect({ step, prompts: proof.prompts, same: proof.sameAnswers }).toEqual({
      step: 4,
      prompts: 8,
      same: 8,
    });
    expect(readFileSync(join(place('sft-merged'), 'README.md'), 'utf8')).toContain('| examples |');
  });
});

test.each(['asking the run', 'writing', 'asking the export'])(
  'interrupted while %s, it leaves nothing',
  async (phase) => {
    const folders = join(folder, 'interrupted');
    mkdirSync(folders, { recursive: true });
    const child = spawnAcoer('export', run, '--gguf', join(folders, 'out.gguf'));
    child.stderr.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes(phase)) child.kill('SIGINT');
    });
    const { code, stdout } = await ended(child);
    expect({ code, stdout }).toEqual({ code: 130, stdout: '' });
    expect(readdirSync(folders)).toEqual([]);
  },
);

test('what rounding has lost is said, and ends with 1', async () => {
  const { code, stdout, stderr } = await acoer('export', run, '--gguf', place('q8.gguf'), '--dtype', 'q8_0');
  const lost = / 2\d of 32/.test(stdout);
  expect(code).toBe(lost ? 1 : 0);
  if (lost)
    expect(stderr).toMatch(
      /greedy answers are not the run's; use --dtype float32, or the adapter itself\.\n$/,
    );
});

test.each([
  [[], 'Give one of --merge FOLDER and --gguf FILE: what to write.'],
  [['--merge', 'a', '--gguf', 'b.gguf'], 'Give one of --merge FOLDER and --gguf FILE: what to write.'],
  [['--merge', 'a', '--lora'], '--lora is for --gguf; the run has its adapter in final/ already.'],
  [
    ['--merge', 'a', '--dtype', 'q8_0'],
    '--dtype q8_0 is for --gguf; a folder has float32, bfloat16 or float16.',
  ],
  [['--gguf', 'a.gguf', '--lora', '--dtype', 'float16'], '--lora is always float32; remove --dtype.'],
  [['--gguf', 'a'], 'a must end in .gguf.'],
  [['--gguf', 'a.gguf', '--step', '2'], 'has no checkpoint of step 2; it has checkpoints of the steps 3, 6.'],
])('%j is refused', async (words, message) => {
  const { code, stderr } = await acoer('export', run, ...words);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) });
});

test('nothing is written over, and nothing is left of what failed', async () => {
  writeFileSync(place('there.gguf'), 'mine');
  const { code, stderr } = await acoer('export', run, '--gguf', place('there.gguf'));
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('there.gguf exists') });
  expect(readFileSync(place('there.gguf'), 'utf8')).toBe('mine');
  expect(readdirSync(folder).filter((name) => name.startsWith('.tmp'))).toEqual([]);
  expect(existsSync('a.gguf')).toBe(false);
});
