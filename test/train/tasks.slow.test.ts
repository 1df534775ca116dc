/** Tasks of the user's: own rows, own judge, own reward, given as code or as files. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type * as Library from '../../src/index';
import { readCompletions, completionTables } from '../../src/run';
import { builtCli, ROOT } from '../helpers/cli';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeTokenizer } from '../helpers/fake-tokenizer';
import { metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

// A judge in a file needs the compiled program.
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { train } = require(join(dirname(builtCli()), '..', 'index.js')) as typeof Library;

afterAll(removeFakeRuns);

const judgeFile = (name: string) => join(ROOT, 'test', 'fixtures', 'judge-modules', name);

/** Rows without a reference answer; the fake engine answers with the digit of the question, or the next. */
const rows = (count: number, end = '') =>
  Array.from({ length: count }, (_, i) => ({ prompt: `say ${i % 10} ${i}${end}`, n: i % 10 }));

function task(more: Given = {}): Given & { out: string } {
  return {
    model: 'tiny',
    engine: new FakeEngine(),
    tokenizer: fakeTokenizer,
    dataset: rows(40),
    evalDataset: rows(20, '?'),
    judge: ({ answer }, { row }) => answer === `\\boxed{${String(row['n'])}}`,
    reward: 'acc',
    maxSteps: 4,
    maxCompletionLength: 60,
    evalMaxNewTokens: 60,
    evalProblems: 20,
    evalSampledProblems: 0,
    saveSteps: 2,
    completionsSteps: 1,
    tensorboard: false,
    out: newFolder(),
    ...more,
  };
}

const finish = async (given: Given) => (await train(...asCall(given))).result();

test('rows, a judge and rewards as plain code; training, evaluation and tables agree', async () => {
  const seen = new Set<number>();
  const given = task({
    reward: [
      function right({ correct }) {
        return correct ? 1 : 0;
      },
      ({ problem, answer }) => {
        (problem.row as { n: number }).n = 99;
        return answer.length / 100;
      },
      function looks({ problem }) {
        seen.add(problem.row['n'] as number);
        return 0;
      },
      { name: 'acc', weight: 0.5 },
    ],
  });
  const summary = await finish(given);
  expect(seen.has(99)).toBe(false);
  expect(summary.base.greedy!.accuracy).toBe(1);
  const [line] = metricsOf(given.out);
  expect(Object.keys(line!).filter((name) => /^rewards\/.*\/mean$/.test(name))).toEqual([
    'rewards/right/mean',
    'rewards/reward/mean',
    'rewards/looks/mean',
    'rewards/acc/mean',
    'rewards/format/mean',
  ]);
  const completions = await readCompletions(completionTables(given.out)[0]!);
  expect(completions.some(({ correct }) => correct)).toBe(true);
  expect(completions.some(({ correct }) => !correct)).toBe(true);
  for (const { prompt, completion, correct, gold } of completions) {
    expect(gold).toBeNull();
    expect(correct).toBe(completion.endsWith(`\\boxed{${/\d/.exec(prompt)![0]}}`));
  }
  const { dataset, evalDataset, judge, reward } = JSON.parse(
    readFileSync(join(given.out, 'config.json'), 'utf8'),
  ) as Library.Config;
  expect([dataset, evalDataset, judge]).toEqual(['memory:rows', 'memory:evaluation rows', 'function:judge']);
  expect(reward).toMatchObject([{ name: 'right' }, { name: 'reward' }, { name: 'looks' }, { name: 'acc', weight: 0.5 }]);
}); // prettier-ignore

test('the same task from files makes the same run', async () => {
  const plain = task({ judge: judgeFile('digit.cjs') });
  await finish(plain);
  const inline = task({ judge: ({ answer }, { row }) => answer.includes(`{${String(row['n'])}}`) });
  await finish(inline);
  expect(metricsOf(plain.out)).toEqual(metricsOf(inline.out));
  expect(metricsOf(plain.out).map((line) => line['accuracy/mean'])).not.toContain(0);
});

test('a run that is interrupted resumes with the same code and data, to the same numbers', async () => {
  const whole = task({ reward: ({ correct, thinkingTokens }) => Number(correct) - thinkingTokens / 100 });
  await finish(whole);
  const { reward, judge, dataset, evalDataset } = whole;
  const broken = task({ reward });
  for await (const { index } of await train(...asCall(broken))) if (index === 2) break;
  const parts = { engine: new FakeEngine(), tokenizer: fakeTokenizer };
  const resume = broken.out;
  await expect(train(...asCall({ resume, ...parts, dataset, evalDataset, judge }))).rejects.toThrow(
    /was trained with the reward "reward", which its program had registered: call registerReward/,
  );
  await expect(train(...asCall({ resume, ...parts, dataset, evalDataset, reward }))).rejects.toThrow(
    'The judge function:judge was a function of the training program; pass it again to train() as judge.',
  );
  await expect(train(...asCall({ resume, ...parts, judge, reward }))).rejects.toThrow(/was in the memory of the training program/); // prettier-ignore
  const changed = rows(40).map((row) => ({ ...row, n: 3 }));
  await expect(
    train(...asCall({ resume, ...parts, dataset: changed, evalDataset, judge, reward })),
  ).rejects.toThrow(/no longer holds the problems this run began with/);
  await finish({ resume, ...parts, dataset, evalDataset, judge, reward });
  expect(metricsOf(broken.out)).toEqual(metricsOf(whole.out));
});

test("a judge's file may move but not change, and a built-in judge cannot become another", async () => {
  const { cpSync, appendFileSync } = await import('node:fs');
  const [here, there] = [newFolder(), newFolder()];
  cpSync(dirname(judgeFile('x')), here, { recursive: true });
  const given = task({ judge: join(here, 'digit.cjs') });
  for await (const { index } of await train(...asCall(given))) if (index === 2) break;
  const { dataset, evalDataset } = given;
  const again = { resume: given.out, engine: new FakeEngine(), tokenizer: fakeTokenizer, dataset, evalDataset };
  cpSync(here, there, { recursive: true });
  await expect(train(...asCall({ ...again, judge: 'math' }))).rejects.toThrow(/A resumed run cannot change judge/);
  appendFileSync(join(here, 'wanted.cjs'), '\n// changed\n');
  await expect(train(...asCall(again))).rejects.toThrow(
    /The judge's file .*digit\.cjs has changed since the checkpoint of step 2 \(the judge: wanted\.cjs\), so before and after could not be compared/,
  );
  const run = await train(...asCall({ ...again, judge: join(there, 'digit.cjs') }));
  expect((await run.result()).trained.greedy).not.toBeNull();
}); // prettier-ignore

test.each<[string, Given, RegExp]>([
  ['loops', { judge: judgeFile('loops.cjs'), rewardTimeoutMs: 300 }, /The judge .*loops\.cjs failed on a completion of problem \d+: no answer within 300 ms/],
  ['answers with a number', { judge: judgeFile('number.cjs') }, /number\.cjs failed on a completion of problem \d+: it returned 3, not true/],
  ['is a function that rejects', { judge: () => Promise.reject(new Error('server gone')) }, /The judge judge failed on a completion of problem \d+: server gone/],
])('a judge that %s ends the run', async (_, more, message) => {
  const failing = finish(task({ ...more, evalProblems: 0, evalDataset: undefined }));
  await expect(failing).rejects.toThrow(message);
  await expect(failing).rejects.toMatchObject({ code: 'JUDGE_FAILED' });
}); // prettier-ignore

test.each<[Given, RegExp]>([
  [{ judge: 'mathh' }, /judge: there is no judge "mathh"; did you mean `math`\?/],
  [{ judge: '/nowhere/judge.mjs' }, /Cannot use the judge ".*" in \/nowhere\/judge\.mjs: no such file/],
  [{ judge: 'exact', answerFrom: 'last-box' }, /answerFrom: has no effect with the judge exact/],
  [{ formatRule: 'regex' }, /formatPattern: must be set when formatRule is regex/],
  [{ formatPattern: 'x' }, /formatPattern: has no effect unless formatRule is regex/],
  [{ formatRule: 'regex', formatPattern: '(' }, /formatPattern: must be a regular expression of JavaScript/],
  [{ reward: [function acc() { return 1; }] }, /A reward named "acc" is built in; give the function another name/],
  [{ reward: [() => 1, 7 as never] }, /reward must list functions or \{name, weight, params\}, not 7/],
  [{ judge: 'exact' }, /rows row 1 has no value for the answer or solution/],
])('%j is refused before a file is written', async (more, message) => {
  await expect(train(...asCall(task(more)))).rejects.toThrow(message);
}); // prettier-ignore

test('a prompt that asks for mathematics under another judge is pointed out', async () => {
  const told = async (more: Given) => {
    const warnings: string[] = [];
    const onEvent: Library.TrainOptions['onEvent'] = (event) => {
      if (event.type === 'warning') warnings.push(event.message);
    };
    const run = await train(
      ...asCall(task({ maxSteps: 1, evalProblems: 0, evalDataset: undefined, onEvent, ...more })),
    );
    await run.return();
    return warnings.filter((message) => /still asks for mathematics/.test(message)).length;
  };
  expect(await told({ preset: 'paper', reward: 'acc' })).toBe(1);
  expect(await told({ preset: 'paper', promptTemplate: '{problem}' })).toBe(0);
  expect(await told({})).toBe(0);
});

test('judges of other kinds, format by a pattern', async () => {
  const withGold = rows(40).map(({ prompt, n }) => ({ prompt, answer: n }));
  const given = task({
    dataset: withGold,
    evalProblems: 0,
    evalDataset: undefined,
    judge: 'regex',
    judgeParams: { pattern: '\\{(\\d)\\}' },
    formatRule: 'regex',
    formatPattern: '^<think>[a-m]',
  });
  await finish(given);
  const completions = await readCompletions(completionTables(given.out)[0]!);
  for (const { prompt, completion, correct, format, extracted } of completions) {
    expect(correct).toBe(completion.endsWith(`\\boxed{${/\d/.exec(prompt)![0]}}`));
    expect(extracted).toMatch(/^\d$/);
    expect(format).toBe(/^<think>[a-m]/.test(completion));
  }
});

test('a reward may run a process, within its time limit', async () => {
  const { execFile } = await import('node:child_process');
  const code = (source: string, timeout: number) =>
    new Promise<number>((resolve) => {
      execFile(process.execPath, ['-e', source], { timeout }, (error, out) => resolve(error ? 0 : Number(out)));
    });
  const quick = { maxSteps: 1, promptsPerStep: 1, numGenerations: 2, evalProblems: 0, evalDataset: undefined };
  const given = task({ ...quick, reward: ({ sample }) => code(`console.log(${sample} + 0.5)`, 20_000) });
  await finish(given);
  expect(metricsOf(given.out)[0]!['rewards/reward/mean']).toBe(1);
  // A process that hangs is ended by the reward's own limit, or ends the run at the run's.
  const ended = task({ ...quick, reward: ({ sample }) => code(sample === 0 ? 'for (;;);' : 'console.log(1)', 2000) });
  await finish(ended);
  expect(metricsOf(ended.out)[0]!['rewards/reward/mean']).toBe(0.5);
  const hung = task({ ...quick, rewardTimeoutMs: 300, reward: () => code('const end = Date.now() + 5000; while (Date.now() < end);', 3000) });
  await expect(finish(hung)).rejects.toThrow(/Reward "reward" failed on sample \d .*: no answer within 300 ms/);
}); // prettier-ignore
