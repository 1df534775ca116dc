/** What a plan expects of proposed tokens. */
import { resolveConfig } from '../../src/config';
import { namedDevice, plannedModel, planRun, type PlannedModel } from '../../src/plan';
import { cacheReads, rowsOfStep, speculativeStep } from '../../src/plan/speculation';
import { acoer } from '../helpers/cli';

test('a step has no more rows than are worth it, and a row of every sequence', () => {
  expect(rowsOfStep(0, 5, 'cuda')).toBe(5);
  expect(rowsOfStep(4, 5, 'cuda')).toBe(25);
  expect(rowsOfStep(4, 5, 'cpu')).toBe(16);
  expect(rowsOfStep(4, 200, 'cuda')).toBe(200);
});

test('more is proposed, more is drawn, until there is no room', () => {
  expect(speculativeStep(0, 8, 'cuda')).toEqual({ rows: 1, tokens: 1 });
  const tokens = [1, 2, 3, 4, 5, 8].map((count) => speculativeStep(count, 16, 'cuda').tokens);
  expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
  expect(speculativeStep(16, 16, 'cuda')).toEqual(speculativeStep(8, 16, 'cuda'));
  expect(speculativeStep(4, 100, 'cuda').rows).toBeCloseTo(1.28, 9);
  expect(speculativeStep(4, 16, 'cpu')).toEqual({ rows: 1, tokens: 1 });
});

test("a block of the card's attention has room for eight queries", () => {
  const reads = (proposed: number, group: number) => cacheReads(speculativeStep(proposed, 8, 'cuda'), group);
  expect(reads(0, 2)).toBe(1);
  expect(reads(3, 2)).toBe(1);
  expect(reads(4, 2)).toBeGreaterThan(1.3);
  expect(reads(1, 4)).toBe(1);
  expect(reads(1, 8)).toBeCloseTo(1.51, 9);
});

describe("the paper's run on an A6000", () => {
  let model: PlannedModel;
  beforeAll(async () => {
    model = (await plannedModel('Qwen/Qwen3-1.7B'))!;
  });
  const plan = (numSpeculativeTokens: number) =>
    planRun({
      config: resolveConfig([{ numSpeculativeTokens }], 'paper'),
      model,
      device: namedDevice('A6000', 'bfloat16'),
    });

  test('decodes in less time, and trains in the same', () => {
    const [without, one, three] = [0, 1, 3].map(plan);
    expect(without!.speculation).toBeNull();
    expect(three!.speculation).toEqual({ rows: 2.36, tokens: 1.34 });
    const decode = [without, one, three].map((of) => of!.time!.mean.expected.decode);
    expect(decode).toEqual([...decode].sort((a, b) => b - a));
    // Steps that the weights bound would gain all of it; more rows cost something.
    expect(decode[0]! / decode[2]!).toBeLessThan(1.34);
    expect(decode[0]! / decode[2]!).toBeGreaterThan(1.2);
    expect(three!.time!.mean.expected.backward).toBe(without!.time!.mean.expected.backward);
  });

  test('logits for all rows, 64 sequences and as many proposed tokens in evaluations', () => {
    const scratch = (count: number) =>
      plan(count).memory.items.find(({ phase, name }) => phase === 'evaluation' && name.startsWith('logits'))!
        .bytes;
    expect(scratch(4) - scratch(0)).toBe(64 * model.shape.vocabSize * 4);
  });
});

test('the report says what it assumes', async () => {
  const args = ['plan', '--preset', 'paper', '--device-name', 'A6000', '--set', 'numSpeculativeTokens=3'];
  const { stdout } = await acoer(...args);
  expect(stdout).toContain(
    'Assumed, as it was on SmolLM2: proposed tokens are right often enough for 1.34 tokens a step from 2.36 rows of a sequence.',
  );
});
