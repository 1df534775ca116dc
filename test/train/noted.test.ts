/** What rewards note of completions: columns of the tables and numbers of metrics.jsonl, also after an interruption. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { mean } from '../../src/base/statistics';
import { registerReward } from '../../src/rewards/registry';
import type { RewardScore } from '../../src/rewards/types';
import type { RewardFunction, UserReward } from '../../src/rewards/user';
import { completionTables, readCompletions, type CompletionRow } from '../../src/run';
import { train } from '../../src/train';
import { fakeParts, fakeRun, filesOf, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

const quick = (more: Given) =>
  fakeRun({ maxSteps: 2, evalProblems: 0, saveSteps: 0, completionsSteps: 1, tensorboard: false, ...more });
const run = async (given: Given) => (await train(...asCall(given))).result();
const rowsOf = (out: string) => Promise.all(completionTables(out).map(readCompletions));

/** Notes a number, a text, a truth, and something of every other completion only. */
const notes: RewardFunction = ({ correct, totalTokens, sample }) => ({
  value: correct ? 1 : 0,
  columns: { length: totalTokens / 2, kind: correct ? 'good' : 'bad', even: sample % 2 === 0 },
  metrics: { 'notes/half': totalTokens / 2, ...(correct && { 'notes/correct_half': totalTokens / 2 }) },
});
registerReward('notes', notes);

test('columns are in the tables of their steps, numbers are means in the line', async () => {
  const given = quick({ reward: 'notes' });
  await run(given);
  const tables = await rowsOf(given.out);
  const lines = metricsOf(given.out);
  expect(tables).toHaveLength(2);
  for (const [i, rows] of tables.entries()) {
    for (const { columns, totalTokens, correct, sample } of rows) {
      expect(columns).toEqual({ length: totalTokens / 2, kind: correct ? 'good' : 'bad', even: sample % 2 === 0 });
    }
    const halves = rows.map(({ totalTokens }) => totalTokens / 2);
    expect(lines[i]!['notes/half']).toBe(mean(halves));
    const right = halves.filter((_, k) => rows[k]!.correct);
    expect(lines[i]!['notes/correct_half']).toBe(right.length === 0 ? undefined : mean(right));
  }
}); // prettier-ignore

test('the same of scoreGroup, of some completions only, and to sinks', async () => {
  const reward: UserReward = {
    scoreGroup: ({ rollouts }) =>
      rollouts.map(({ sample }): number | RewardScore =>
        sample === 0 ? { value: 1, columns: { first: 'yes' }, metrics: { first: NaN, other: 2 } } : 0.5,
      ),
  };
  registerReward('some', reward);
  const seen: CompletionRow[] = [];
  const sink = { completions: (_: number, rows: readonly CompletionRow[]) => void seen.push(...rows) };
  const given = quick({ reward: 'some', sinks: [sink] });
  await run(given);
  const rows = (await rowsOf(given.out)).flat();
  expect(rows.map(({ columns }) => columns)).toEqual(
    rows.map(({ sample }) => ({ first: sample === 0 ? 'yes' : null })),
  );
  expect(rows.map(({ scored }) => scored!.parts)).toEqual(
    rows.map(({ sample, format }) => ({ some: sample === 0 ? 1 : 0.5, format: format ? 1 : 0 })),
  );
  expect(seen.map(({ reward: { columns } }) => columns)).toEqual(
    rows.map(({ sample }) => (sample === 0 ? { first: 'yes' } : undefined)),
  );
  for (const line of metricsOf(given.out)) expect([line.first, line.other]).toEqual([undefined, 2]);
});

test('values of several kinds in a column are text', async () => {
  registerReward('mixed', ({ sample }) => ({ value: 1, columns: { both: sample === 0 ? 1 : 'one' } }));
  const given = quick({ reward: 'mixed', maxSteps: 1 });
  await run(given);
  const rows = (await rowsOf(given.out)).flat();
  expect(new Set(rows.map(({ columns }) => columns!.both))).toEqual(new Set(['1', 'one']));
});

test('a run that is interrupted between the updates of a batch goes on to the same files', async () => {
  const settings: Given = { reward: 'notes', maxSteps: 6, stepsPerGeneration: 2, numIterations: 2 };
  const whole = quick(settings);
  await run(whole);
  const parted = quick(settings);
  const begun = await train(...asCall(parted));
  for (let step = 0; step < 3; step++) await begun.next();
  await begun.return();
  await (await train({}, { resume: parted.out, ...fakeParts() })).result();
  expect(metricsOf(parted.out)).toEqual(metricsOf(whole.out));
  expect(metricsOf(whole.out)[3]!['notes/half']).toBe(metricsOf(whole.out)[0]!['notes/half']);
  const tables = (out: string) =>
    Object.fromEntries(Object.entries(filesOf(out)).filter(([name]) => name.startsWith('completions')));
  expect(tables(parted.out)).toEqual(tables(whole.out));
});

test.each<[string, object, string]>([
  ['a column of every table', { columns: { completion: 1 } }, 'names a column "completion", which the table has already; choose another name'],
  ['the name of a reward', { columns: { wrong: 1 } }, 'names a column "wrong", which the table has already'],
  ['a name with a line end', { columns: { 'a\nb': 1 } }, 'names a column "a\\nb"; a name has up to 64 letters'],
  ['a name that objects have', { columns: { constructor: 1 } }, 'names a column "constructor"; a name has'],
  ['a list as columns', { columns: [1] }, 'as its columns, which must be an object'],
  ['an object as a value', { columns: { a: {} } }, 'as its column "a", which must be text, a number, true, false or null'],
  ['text as a metric', { metrics: { a: '1' } }, 'as its metric "a", which must be a number'],
  ['a column for each thought', { columns: Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`c${i}`, i])) }, 'has 65 columns; at most 64 are allowed'],
])('%s ends the run before anything is written, naming the reward', async (_, noted, sentence) => {
  registerReward('wrong', () => ({ value: 1, ...noted }));
  const given = quick({ reward: 'wrong' });
  const failed = run(given);
  await expect(failed).rejects.toMatchObject({ code: 'REWARD_FAILED' });
  await expect(failed).rejects.toThrow(`Reward "wrong" `);
  await expect(failed).rejects.toThrow(sentence);
  expect(existsSync(join(given.out, 'completions', 'step-000001.parquet'))).toBe(false);
}); // prettier-ignore

test('a metric of the run, or a column of another reward, cannot be taken', async () => {
  registerReward('greedy', () => ({ value: 1, metrics: { loss: 0 } }));
  await expect(run(quick({ reward: 'greedy' }))).rejects.toThrow(
    'The metrics of reward "greedy" name "loss", which the run writes itself; choose another name',
  );
  registerReward('twin', () => ({ value: 1, columns: { kind: 'twin' } }));
  const reward = [{ name: 'notes' }, { name: 'twin' }];
  await expect(run(quick({ reward }))).rejects.toThrow('Two rewards of the run name a column "kind".');
});
