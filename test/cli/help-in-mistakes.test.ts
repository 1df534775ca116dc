/** What people type by mistake is answered with what to do. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { registerReward, train } from '../../src';
import { acoer, builtCli, ended, spawnAcoer } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-mistakes-'));
beforeAll(builtCli);
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  [['nonsense', '--help'], "acoer: unknown command 'nonsense'; the commands are init, train, sweep, sft, "],
  [['help', 'nonsense'], "acoer: unknown command 'nonsense'; the commands are init, train, sweep, sft, "],
  [['evla', '-h'], "acoer: unknown command 'evla'; did you mean `eval`?"],
  [['bench'], "acoer: missing required argument 'what' (what to measure: rollout, train, step); see acoer bench --help"],
  [['report'], "acoer: missing required argument 'run' (folders of runs, several are compared; or of a sweep, with folders of acoer eval); see acoer report --help"],
  [['train', '--reward', 'mine.mjs'], 'there is no reward "mine.mjs"; a reward in a file goes under rewardModules: rewardModules.NAME=mine.mjs, and reward NAME'],
])('%j', async (words, sentence) => {
  const { code, stdout, stderr } = await acoer(...words);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(sentence);
}); // prettier-ignore

test.each([['--help'], ['train', '--help'], ['help', 'train'], ['help']])(
  'help: acoer %s %s',
  async (...words) => {
    expect((await acoer(...words.filter((word) => word !== undefined))).code).toBe(0);
  },
);

test('rows without answers: that other judges need none is said', async () => {
  const file = join(folder, 'nogold.jsonl');
  writeFileSync(file, '{"problem": "1+1"}\n');
  const { code, stderr } = await acoer('train', '--set', `dataset=${file}`, '--set', 'model=tiny');
  expect(code).toBe(2);
  expect(stderr).toContain('or judge without references (docs/tasks.md)');
});

test('a device that is not there: no path is printed and no run is left', async () => {
  const out = join(folder, 'on-cuda');
  const { code, stdout } = await acoer('train', '--device', 'cuda:7', '--out', out);
  expect({ stdout, left: existsSync(out) }).toEqual({ stdout: '', left: false });
  expect(code).not.toBe(0);
});

test('set-up refuses an unknown flavour as a mistake of usage', async () => {
  expect((await ended(spawnAcoer('setup', '--flavour', 'rocm'))).code).toBe(2);
});

test('a run whose reward a program had registered says so when it is resumed', async () => {
  const out = join(folder, 'run');
  registerReward('of-this-program', ({ correct }) => Number(correct));
  const settings = {
    maxSteps: 1,
    promptsPerStep: 2,
    maxCompletionLength: 8,
    evalProblems: 0,
    evalSampledProblems: 0,
  };
  await (await train({ ...settings, reward: 'of-this-program' }, { out })).result();
  await expect(train(settings, { out })).rejects.toMatchObject({
    code: 'RUN_EXISTS',
    message: expect.stringContaining('or resume of train()'),
  });
  const { code, stderr } = await ended(spawnAcoer('train', '--resume', out, '--max-steps', '2'));
  expect(code).toBe(2);
  expect(stderr).toContain("call registerReward('of-this-program', ...) before train({}, { resume })");
});
