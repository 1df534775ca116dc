/** Large batches are planned from a part of them: close to all of them, in turns of the event loop. */
import { resolveConfig } from '../../src/config';
import { namedDevice, plannedModel, planRun, planRunPaced } from '../../src/plan';
import { drawLengths, drawnPart, MOST_DRAWN } from '../../src/plan/lengths';
import { plannedWork } from '../../src/plan/workload';
import { acoer } from '../helpers/cli';

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;

test('up to 4,096 completions all are drawn', () => {
  expect(drawnPart(64, 64)).toEqual({ prompts: 64, group: 64, scale: 1 });
  expect(drawnPart(1, 16)).toEqual({ prompts: 1, group: 16, scale: 1 });
});

test.each([
  [400, 256],
  [1000, 16],
  [300, 64],
  [70, 64],
  [20_000, 2],
  [5, 1000],
  [2, 4000],
])('%d x %d completions: tokens of the part drawn are within 2%%, the fullest batch within 6%%', (prompts, group) => {
  const { scale, ...part } = drawnPart(prompts, group);
  expect(part.prompts * part.group).toBeLessThanOrEqual(MOST_DRAWN);
  expect(scale * part.prompts * part.group).toBeCloseTo(prompts * group, 6);
  for (const [tokens, cap] of [[5553, 8192], [2134, 8192]] as const) {
    const totals = (of: { prompts: number; group: number }) =>
      Array.from({ length: 32 }, (_, draw) => sum(drawLengths(tokens, { ...of, cap, draw })));
    const all = totals({ prompts, group });
    expect(Math.abs((scale * mean(totals(part))) / mean(all) - 1)).toBeLessThan(0.02);
    const config = resolveConfig([{ promptsPerStep: prompts, numGenerations: group, maxCompletionLength: cap }], 'paper');
    const { fullestBatchTokens } = plannedWork(config, 150, { first: tokens, last: tokens });
    expect(Math.abs(fullestBatchTokens / Math.max(...all) - 1)).toBeLessThan(0.06);
  }
}); // prettier-ignore

test('a plan in turns is the same plan, lets others run, and can be interrupted', async () => {
  const config = resolveConfig([{ promptsPerStep: 1000, numGenerations: 64, evalProblems: 20_000 }]);
  const input = { config, model: await plannedModel('tiny'), device: namedDevice('A6000', 'float32') };
  let turns = 0;
  let done = false;
  const count = () => {
    turns++;
    if (!done) setImmediate(count);
  };
  setImmediate(count);
  const plan = await planRunPaced(input);
  done = true;
  expect(plan).toEqual(planRun(input));
  expect(turns).toBeGreaterThan(10);
  const aborted = AbortSignal.abort(new Error('asked to end'));
  await expect(planRunPaced(input, aborted)).rejects.toThrow('asked to end');
});

const ALL = 'promptsPerStep x numGenerations';
test.each([
  [['promptsPerStep=100000', 'numGenerations=512'], `${ALL}: 100,000 x 512 = 51,200,000 completions would be sampled together, more than any machine holds (at most 1,000,000)`],
  [['promptsPerStep=100000', 'numGenerations=64'], `${ALL}: 100,000 x 64 = 6,400,000 completions`],
  [['promptsPerStep=100000', 'stepsPerGeneration=8', 'numGenerations=2'], '100,000 x 8 x 2 = 1,600,000 completions'],
  [['evalProblems=2000000'], 'evalProblems: 2,000,000 answers of an evaluation are more than any machine holds (at most 1,000,000)'],
  [['evalSampledProblems=2000000'], 'evalSampledProblems: 2,000,000 answers'],
])('%j is refused by train and plan before anything starts', async (settings, sentence) => {
  for (const command of ['train', 'plan']) {
    const { code, stdout, stderr } = await acoer(command, ...settings.flatMap((one) => ['--set', one]));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain('acoer: Configuration: ');
    expect(stderr).toContain(sentence);
  }
}); // prettier-ignore
