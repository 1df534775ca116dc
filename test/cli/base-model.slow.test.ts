/** An adapter of a run is used with the model, tokenizer and template it was trained on only, whatever uses it. */
import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TINY_MODEL } from '../../src/models';
import { acoer, linesFile } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-base-model-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let count = 0;
const newPath = (name: string): string => join(root, `${name}-${count++}`);

const model = join(root, 'model');
const whole = join(root, 'whole');
const run = join(root, 'run');
const full = join(root, 'full');
const supervised = join(root, 'sft');
const lines = linesFile([{ ids: [1, 2, 3], promptLength: 1 }]);
const rows = linesFile(
  [1, 2, 3, 4].map((a) => ({ prompt: `${a}+1 mod 10?`, completion: `<think>\n</think>\n\\boxed{${a + 1}}` })),
);
const SMALL = ['--max-steps', '2', '--threads', '1', '--set', 'saveSteps=1'];
const GRPO = [...SMALL, '--preset', 'tiny', '--set', 'promptsPerStep=2', '--set', 'evalProblems=0'].concat(
  ['evalSampledProblems=0', 'maxCompletionLength=32', `model=${model}`].flatMap((text) => ['--set', text]),
);
const SFT = [...SMALL, '--model', model, '--dataset', rows, '--set', 'batchSize=2'];

beforeAll(async () => {
  cpSync(TINY_MODEL, model, { recursive: true });
  for (const words of [
    ['train', ...GRPO, '--out', run],
    ['train', ...GRPO, '--full', '--out', full],
    ['sft', ...SFT, '--out', supervised],
  ]) {
    const { code, stderr } = await acoer(...words);
    expect({ code, stderr }).toMatchObject({ code: 0 });
  }
  cpSync(model, whole, { recursive: true });
});

beforeEach(() => {
  rmSync(model, { recursive: true });
  cpSync(whole, model, { recursive: true });
});

const EVAL = ['eval', '--benchmark', 'tiny', '--problems', '1', '--threads', '1', '--max-new-tokens', '4'];
const evaluated = (...words: string[]) => [...EVAL, '--out', newPath('eval'), ...words];
const generated = (adapter: string) => ['generate', '--model', model, '--adapter', adapter, '--prompt', '1+1', '--max-new-tokens', '2']; // prettier-ignore

/** Uses of what was trained, and whether each renders prompts. */
const USES: readonly (readonly [string, prompts: boolean, () => string[]])[] = [
  ['eval --run', true, () => evaluated('--run', run)],
  ['eval --run of a full run', true, () => evaluated('--run', full)],
  ['eval --adapter final', true, () => evaluated('--model', model, '--adapter', join(run, 'final'))],
  ['eval --adapter checkpoint', true, () => evaluated('--model', model, '--adapter', join(run, 'checkpoints', 'step-000001'))], // prettier-ignore
  ['eval --adapter of sft', true, () => evaluated('--model', model, '--adapter', join(supervised, 'final'))],
  ['generate', true, () => generated(join(run, 'final'))],
  ['generate, sft checkpoint', true, () => generated(join(supervised, 'checkpoints', 'step-000001'))],
  ['score', false, () => ['score', '--model', model, '--adapter', join(run, 'final'), lines]],
  [
    'train --adapter',
    false,
    () => ['train', ...GRPO, '--adapter', join(supervised, 'final'), '--out', newPath('on')],
  ],
  ['sft --adapter', false, () => ['sft', ...SFT, '--adapter', join(run, 'final'), '--out', newPath('on')]],
];

const changeByte = (name: string): void => {
  const bytes = readFileSync(join(model, name));
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(join(model, name), bytes);
};

const refused = (name: string) => ({
  code: 2,
  stderr: expect.stringMatching(
    new RegExp(`acoer: ${name} in .* has changed since the checkpoint of step [12], whose adapter was trained on what was there before; restore it.*\\n$`), // prettier-ignore
  ) as string,
});

test.each(USES)('%s: other weights are refused, the same ones elsewhere are not', async (_, __, words) => {
  expect(await acoer(...words())).toMatchObject({ code: 0 });
  changeByte('model.safetensors');
  expect(await acoer(...words())).toMatchObject(refused('model.safetensors'));
});

test.each(USES.filter(([, prompts]) => prompts))('%s: so are another tokenizer and another chat template', async (_, __, words) => {
  writeFileSync(join(model, 'tokenizer.json'), `${readFileSync(join(model, 'tokenizer.json'), 'utf8')} `);
  expect(await acoer(...words())).toMatchObject(refused('tokenizer.json'));
  cpSync(join(whole, 'tokenizer.json'), join(model, 'tokenizer.json'));
  writeFileSync(join(model, 'chat_template.jinja'), '{{ messages[0].content }}');
  expect(await acoer(...words())).toMatchObject(refused('the chat template'));
}); // prettier-ignore

test('an adapter that says nothing of its model is used with any', async () => {
  const adapter = newPath('pefts');
  cpSync(join(run, 'final'), adapter, { recursive: true });
  expect(existsSync(join(adapter, 'identity.json'))).toBe(true);
  rmSync(join(adapter, 'identity.json'));
  changeByte('model.safetensors');
  expect(await acoer(...generated(adapter))).toMatchObject({ code: 0 });
});

test('a damaged record is named', async () => {
  const adapter = newPath('damaged');
  cpSync(join(run, 'final'), adapter, { recursive: true });
  writeFileSync(join(adapter, 'identity.json'), '{"identity":{"model":5}}');
  const message = expect.stringMatching(/identity\.json is damaged: identity\.model/) as string;
  expect(await acoer(...generated(adapter))).toMatchObject({ code: 2, stderr: message });
});

test('a model that moved is the same', async () => {
  const moved = newPath('model');
  renameSync(model, moved);
  const words = evaluated('--model', moved, '--run', run);
  expect(await acoer(...words)).toMatchObject({ code: 0 });
  cpSync(whole, model, { recursive: true });
});
