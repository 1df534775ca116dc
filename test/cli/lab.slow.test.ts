import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LabReport } from '../../src/lab';
import { makeRollout, namedPrompt } from '../../src/lab/rollouts';
import { writeCompletions } from '../../src/run';
import { acoer, builtCli, ended, linesFile, spawnAcoer, ROOT } from '../helpers/cli';

const root = mkdtempSync(join(tmpdir(), 'acoer-lab-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

async function json(...words: string[]): Promise<LabReport> {
  const { code, stdout } = await acoer('lab', ...words, '--json');
  expect(code).toBe(0);
  return JSON.parse(stdout) as LabReport;
}

test("without arguments it shows every reward on the paper's group", async () => {
  const { code, stdout, stderr } = await acoer('lab');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain('Synthetic groups of 16: accuracy 0.7 (11 correct in the mixed one), L 8,192.');
  for (const title of [
    'REWARD AND ADVANTAGE',
    'GROUP COMPOSITION',
    'PRESSURE ON LENGTH',
    'PROPOSITION 1',
    'PREDICTED',
  ]) {
    expect(stdout).toContain(title);
  }
  // The paper's figures: 99.7% mixed at 0.7, 2.8% all incorrect at 0.2.
  expect(stdout).toMatch(/^0\.7 +99\.67% +4\.3e-9 +2\.57% +0\.33% +0\.458$/m);
  expect(stdout).toMatch(/^0\.2 +97\.19% +2\.81%/m);
  expect(stdout).toMatch(/^grpo-lp +1\+2 +Incorrect answers are pushed shorter/m);
  expect(stdout).toMatch(
    /^acc +none +Incorrect answers are not affected by length; correct answers are not\s+affected by length\.$/m,
  );
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(130);
});

test('docs/lab.md shows what its command prints', async () => {
  const { stdout } = await acoer('lab', '--reward', 'acc,acoer,beta0,beta0.10,grpo-lp,binary');
  expect(readFileSync(join(ROOT, 'docs', 'lab.md'), 'utf8')).toContain(stdout);
});

test('options describe the groups, the rewards and the advantage', async () => {
  const report = await json(
    ...[
      '--reward',
      'acoer,grpo-lp',
      '--reward',
      'acc',
      '--accuracy',
      '0.5',
      '--group',
      '8',
      '--max-length',
      '1000',
    ],
    ...['--correct-length', '300:20', '--incorrect-length', '500', '--answer-tokens', '10', '--seed', '3'],
    ...['--set', 'alphaInit=0.1', '--state', '{"budget":400}', '--advantage-epsilon', '0'],
    ...['--scale-rewards', 'none', '--format-weight', '0.5'],
  );
  expect(report.rewards.map(({ name }) => name)).toEqual(['acoer', 'grpo-lp', 'acc']);
  expect(report).toMatchObject({ groupSize: 8, accuracy: 0.5, correctCount: 4 });
  expect(report.settings).toMatchObject({ maxLength: 1000, epsilon: 0, scale: 'none', formatWeight: 0.5 });
  expect(report.lengths.incorrect).toEqual({ mean: 500, std: 0 });
  expect(report.rewards[0]!.state).toMatchObject({ alpha: 0.1, budget: 400 });
  const wrong = report.rewards[2]!.answers.at(-1)!;
  expect(wrong).toMatchObject({
    correct: false,
    thinkingTokens: 500,
    totalTokens: 510,
    reward: 0.5,
    advantage: -0.5,
  });
});

test('the plot is written to its file, the tables to standard output', async () => {
  const path = join(root, 'lab.svg');
  const { code, stdout } = await acoer('lab', '--reward', 'acc,beta0', '--svg', path);
  expect(code).toBe(0);
  expect(stdout).toContain('PREDICTED');
  expect(readFileSync(path, 'utf8')).toMatch(/^<svg [^]*<\/svg>\n$/);
});

test('a reward from a file is shown next to the others', async () => {
  const file = join(root, 'mine.js');
  writeFileSync(
    file,
    'module.exports = (rollout) => (rollout.correct ? 1 : -rollout.thinkingTokens / 8192);',
  );
  const set = ['--set', `rewardModules.mine=${file}`];
  const { code, stdout } = await ended(spawnAcoer('lab', ...set, '--reward', 'mine,beta0', '--json'));
  expect(code).toBe(0);
  const [mine, beta0] = (JSON.parse(stdout) as LabReport).rewards;
  expect(mine!.prediction.pathways).toEqual([1]);
  expect(mine!.sweeps.mixed.points[0]!.incorrect!.rewardSlope).toBeCloseTo(-1 / 8192, 12);
  expect(beta0!.prediction.pathways).toEqual([2]);
});

/** Two groups of four in each of three steps. */
const lines = [0, 1, 2].flatMap((step) =>
  ['a', 'b'].flatMap((group) =>
    [100, 140, 180, 260].map((thinkingTokens, i) => ({
      step,
      group,
      correct: group === 'a' ? i < 2 : step > 0,
      thinkingTokens,
      totalTokens: thinkingTokens + 9,
      format: true,
    })),
  ),
);

test('JSON Lines are read as recorded groups', async () => {
  const report = await json(linesFile(lines), '--reward', 'grpo-lp', '--max-length', '512');
  expect(report.recorded).toMatchObject({ steps: 3, groups: 6, answers: 24 });
  expect(report.recorded!.shares.mixed).toBeCloseTo(1 / 2, 12);
  const own = report.rewards[0]!.recorded!;
  expect(own.answers[0]!.reward).toBeCloseTo(2 - (0.3 * 100) / 512, 12);
  const { stdout } = await acoer('lab', linesFile(lines), '--reward', 'grpo-lp', '--max-length', '512');
  expect(stdout).toContain('24 recorded completions in 6 groups of 3 steps; groups of 4 like them');
  expect(stdout).toMatch(/^recorded +50\.00%/m);
});

test('reads standard input, and ends quietly when its pipe is closed', async () => {
  builtCli();
  const child = spawnAcoer('lab', '-', '--reward', 'acc', '--json');
  child.stdin.end(lines.map((line) => JSON.stringify(line)).join('\n'));
  const { code, stdout } = await ended(child);
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as LabReport).recorded!.answers).toBe(24);
});

async function makeRun(name: string, advantageEpsilon = 0.2): Promise<string> {
  const run = join(root, name);
  mkdirSync(join(run, 'completions'), { recursive: true });
  const config = { maxCompletionLength: 640, scaleRewards: 'batch', advantageEpsilon, formatWeight: 0.5 };
  writeFileSync(join(run, 'config.json'), JSON.stringify(config));
  for (const step of [1, 2]) {
    const rows = [0, 1].flatMap((index) =>
      [200, 300].map((length, i) => ({
        rollout: makeRollout(namedPrompt(`p${index}`, index), i, i === 0, length, length + 5),
        reward: { total: 1, parts: {} },
        advantage: 0,
      })),
    );
    await writeCompletions(join(run, 'completions', `step-00000${step}.parquet`), step, rows);
  }
  return run;
}

test("a run's folder and its tables give the same, with the run's limit and steps counted from 0", async () => {
  const run = await makeRun('one');
  const tables = ['1', '2'].map((step) => join(run, 'completions', `step-00000${step}.parquet`));
  const whole = await json(run, '--reward', 'grpo-lp', '--observe');
  expect(whole.settings.maxLength).toBe(640);
  expect(whole.recorded).toMatchObject({ steps: 2, groups: 4, answers: 8 });
  expect(whole.rewards[0]!.recorded!.answers.map(({ step }) => step)).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
  expect(await json(...tables, '--reward', 'grpo-lp', '--observe')).toEqual(whole);
});

test('advantages are divided as in the run, or as the runs agree; an option takes precedence', async () => {
  const run = await makeRun('scaled');
  expect((await json(run, '--reward', 'acc')).settings).toMatchObject({
    scale: 'batch',
    epsilon: 0.2,
    formatWeight: 0.5,
  });
  const other = await makeRun('scaled otherwise', 0.1);
  expect((await json(run, other, '--reward', 'acc')).settings).toMatchObject({
    scale: 'batch',
    epsilon: 1e-4,
  });
  expect((await json(run, '--reward', 'acc', '--advantage-epsilon', '0')).settings.epsilon).toBe(0);
});

test('steps of two runs are kept apart', async () => {
  const runs = [await makeRun('two'), await makeRun('three')];
  const { recorded } = await json(...runs, '--reward', 'acc');
  expect(recorded).toMatchObject({ steps: 4, groups: 8, answers: 16 });
  expect((await acoer('lab', ...runs, '--observe')).stderr).toMatch(/steps of one run, not of 2/);
});

const bad = (change: object): string => linesFile([lines[0], { ...lines[1], ...change }]);

test.each([
  [['none.jsonl'], /Cannot read none\.jsonl/],
  [[root], /contains no completion tables/],
  [[bad({ correct: 'yes' })], /line 2: "correct" is "yes"; it must be true or false/],
  [[bad({ thinkingTokens: -1 })], /line 2: "thinkingTokens" is -1; it must be a whole number/],
  [[bad({ step: -1 })], /line 2: "step" is -1/],
  [[bad({ group: null })], /"group" is null; it must be a number or a string/],
  [[bad({ format: undefined })], /"format" is missing; it must be true or false/],
  [[linesFile([5])], /line 1: not a JSON object/],
  [[linesFile([])], /no recorded completions found/],
  [[linesFile(lines.slice(0, 1))], /Group "a" of step 0 has one completion/],
  [[linesFile(lines), '--accuracy', '0.5'], /--accuracy describes synthetic groups/],
  [['--observe'], /--observe follows recorded steps/],
  [['--correct-length', '5:'], /must be MEAN or MEAN:SD/],
  [['--state', '[]'], /must be a JSON object/],
  [['--state', '{"alhpa":1}'], /state value alhpa; did you mean `alpha`/],
  [['--reward', 'acoerr'], /Unknown reward "acoerr"; did you mean `acoer`/],
  [['--set', 'alhpa=1', '--reward', 'grpo-lp'], /parameter alhpa; did you mean `alpha`/],
  [['--group', '1'], /whole number from 2 to 1024/],
  [['--svg', root], /is a folder; name a file/],
] as [string[], RegExp][])('%j exits with 2, one sentence and no output', async (words, message) => {
  const { code, stdout, stderr } = await acoer('lab', ...words);
  expect(stderr).toMatch(message);
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});
