/**
 * Answers as the authors' released reward finds them, checked against an independent implementation of its
 * rule.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resolveConfig } from '../../src/config';
import { train } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { verifyCompletion } from '../../packages/verify/src';
import { lastBoxOrTag } from '../../packages/verify/src/boxed';
import { ended, linesFile, objects, spawnAcoer } from '../helpers/cli';
import { fakeRun, removeFakeRuns } from '../helpers/fake-run';
import { fakeTokenizer } from '../helpers/fake-tokenizer';
import { asCall } from '../helpers/given';

afterAll(removeFakeRuns);

const path = join(__dirname, '..', 'fixtures', 'verify', 'authors-answers.json');
const { cases } = JSON.parse(readFileSync(path, 'utf8')) as {
  cases: { text: string; answer: string | null }[];
};

test('every text of the fixture has the answer given there', () => {
  expect(cases.length).toBeGreaterThan(500);
  for (const { text, answer } of cases) {
    const { extracted } = verifyCompletion(text, 'none of these', 'last-box');
    expect({ text, answer: lastBoxOrTag(text), extracted }).toEqual({ text, answer, extracted: answer });
  }
});

const PAIRS: [text: string, gold: string, byAnswer: boolean, byLastBox: boolean][] = [
  ['<think>\\boxed{5}</think>', '5', false, true],
  ['<think>x</think> \\boxed{4}, \\boxed{5}', '5', false, true],
  ['<think>x</think> \\boxed{4}, \\boxed{5}', '4,5', true, false],
  ['<think>x</think> <answer>\\frac{1}{2}</answer>', '0.5', false, true],
  ['<think>\\boxed{3}</think> \\boxed{4}', '4', true, true],
];

test.each(PAIRS)('%s against %s', (text, gold, byAnswer, byLastBox) => {
  expect(verifyCompletion(text, gold).correct).toBe(byAnswer);
  expect(verifyCompletion(text, gold, 'last-box').correct).toBe(byLastBox);
});

test('acoer verify --preset last-box and acoer eval --answers last-box take that answer', async () => {
  const file = linesFile(PAIRS.map(([pred, gold]) => ({ gold, pred })));
  const verified = await ended(spawnAcoer('verify', '--preset', 'last-box', file));
  const expected = PAIRS.map(([, , , byLastBox]) => byLastBox);
  expect(objects<{ correct: boolean }>(verified.stdout).map(({ correct }) => correct)).toEqual(expected);
  const completions = linesFile(PAIRS.map(([completion, gold], i) => ({ id: `p${i}`, completion, gold })));
  const share = async (...words: string[]) => {
    const { stdout } = await ended(spawnAcoer('eval', '--completions', completions, '--json', ...words));
    return objects<{ accuracy: number }>(stdout)[0]!.accuracy;
  };
  expect(await share()).toBeCloseTo(2 / 5, 10);
  expect(await share('--answers', 'last-box')).toBeCloseTo(4 / 5, 10);
});

test.each([
  ['answer', '4,5'],
  ['last-box', '5'],
] as const)('training under answerFrom %s rewards the answer %s', async (answerFrom, extracted) => {
  const seen = new Set<string | null>();
  registerReward(`seen-${answerFrom}`, ({ verdict }) => {
    seen.add(verdict.extracted);
    return 1;
  });
  const tokenizer = { ...fakeTokenizer, decode: () => '</think> \\boxed{4}, \\boxed{5}' };
  const run = fakeRun({ answerFrom, reward: `seen-${answerFrom}`, tokenizer, maxSteps: 1, evalProblems: 0 });
  await (await train(...asCall(run))).result();
  expect([...seen]).toEqual([extracted]);
});

test("only the authors' preset trains with it", () => {
  expect(resolveConfig([{}], 'authors-code').answerFrom).toBe('last-box');
  for (const preset of ['tiny', 'paper']) expect(resolveConfig([{}], preset).answerFrom).toBe('answer');
});
