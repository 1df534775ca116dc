/** Where a text has its answer when thinking or a box does not end. */
import { verifyAnswer, verifyCompletion } from '../../packages/verify/src';
import { mathJudge } from '../../src/judges/math';
import { ended, linesFile, objects, spawnAcoer } from '../helpers/cli';

const OPEN = [
  '<think>maybe it is \\boxed{12}, let me check',
  '\n <think>\nThe final answer is \\boxed{12}.',
  'Sure.\n<think>\nSo \\boxed{12}',
  'Let me see. <think>\\boxed{12}',
  '<think>a</think> \\boxed{12}\n<think>\nwait, \\boxed{12}',
  '<think>a</think><think>\\boxed{12}',
  '<think>The answer is 12',
];
const CLOSED = [
  '<think>\\boxed{11}</think> \\boxed{12}',
  'thought without its tag \\boxed{11}</think>\\boxed{12}',
  '\\boxed{12}',
  'The tag <think> is not used here. \\boxed{12}',
  'I put no `<think>` here: \\boxed{12}',
  '<think>a</think> The block <think> has ended. \\boxed{12}',
  '<think>a</think> \\boxed{12}\n<think>no, \\boxed{11}</think>',
  '<think>a</think>\n<think>b \\boxed{11}</think>\n\\boxed{12}',
  '<think>a</think></think> \\boxed{12}',
];

const rules = ['answer', 'open-thinking'] as const;

test('thinking that never closes has no answer, except by the paper’s rule', () => {
  for (const text of OPEN) {
    expect([text, verifyCompletion(text, '12')]).toEqual([
      text,
      { correct: false, status: 'unparseable', extracted: null },
    ]);
    expect(verifyAnswer('12', text).status).toBe('unparseable');
    expect(verifyAnswer('12', text, { openThinking: 'searched' })).toMatchObject({ fromOpenThinking: true });
    if (!text.includes('boxed')) continue;
    expect([text, verifyCompletion(text, '12', 'open-thinking')]).toEqual([
      text,
      { correct: true, status: 'correct', extracted: '12', fromOpenThinking: true },
    ]);
    expect(verifyCompletion(text, '12', 'last-box').correct).toBe(true);
  }
  for (const text of CLOSED) {
    const right = { correct: true, status: 'correct', extracted: '12' };
    for (const rule of rules) expect([text, verifyCompletion(text, '12', rule)]).toEqual([text, right]);
    expect([text, verifyAnswer('12', text)]).toEqual([text, right]);
  }
});

test('a prompt that opened the thinking', () => {
  const text = 'maybe \\boxed{12}';
  expect(verifyCompletion(text, '12', 'answer', { thinkOpened: true }).extracted).toBeNull();
  expect(verifyCompletion(`${text}</think> \\boxed{12}`, '12', 'answer', { thinkOpened: true }).correct).toBe(
    true,
  );
  const problem = { id: 'p', question: '', gold: '12', level: null, row: {} };
  const completion = { text, thinkOpened: true, thinkingTokens: 3, thinkingClosed: false };
  expect(mathJudge().verdict(completion, problem)).toMatchObject({ correct: false, extracted: null });
  expect(mathJudge('open-thinking').verdict(completion, problem)).toMatchObject({
    correct: true,
    fromOpenThinking: true,
  });
});

test('a text that ends inside a box has no answer', () => {
  for (const cut of [
    '\\boxed{',
    '\\boxed{1',
    '\\fbox{12',
    '\\boxed{\\frac{12}{1',
    '\\boxed{\\text{12}',
    '\\\\boxed{12',
    '\\boxed {12',
    '\\fbox{\\boxed{12}',
  ]) {
    for (const before of [
      'I think it is \\boxed{12}. But wait, it is ',
      '<think>\\boxed{12}</think> \\boxed{12}, so ',
      '',
      'The answer is 12. ',
    ]) {
      const text = before + cut;
      for (const rule of rules)
        expect([text, verifyCompletion(text, '12', rule).extracted]).toEqual([text, null]);
      expect([text, verifyAnswer('12', text).extracted]).toEqual([text, null]);
    }
  }
  expect(verifyCompletion('<think>\\boxed{1</think> \\boxed{12}', '12').correct).toBe(true);
});

test.each([
  'I marked it with \\boxed',
  'The macro \\boxed is for answers.',
  'See `\\boxed`.',
  'We used \\boxed and \\fbox.',
  'I used \\boxed.',
])('a box named after the answer: %s', (text) => {
  expect(verifyAnswer('7', `So $\\boxed{7}$. ${text}`).correct).toBe(true);
  expect(verifyCompletion(`So $\\boxed{7}$. ${text}`, '7').correct).toBe(true);
  expect(verifyAnswer('7', `The answer is $7$. ${text}`).correct).toBe(true);
});

test('a box without braces still is one', () => {
  for (const text of ['So $\\boxed 7$.', 'so \\boxed 7', '$\\fbox 7$', '$$\\boxed \\frac{14}{2}$$'])
    expect([text, verifyAnswer('7', text).correct]).toEqual([text, true]);
});

test('acoer verify asks for an end of thinking; acoer eval follows the paper and says how often it mattered', async () => {
  const texts = [OPEN[0]!, CLOSED[0]!, '<think>it is \\boxed{3}'];
  const pairs = linesFile(texts.map((pred) => ({ gold: '12', pred })));
  const verified = await ended(spawnAcoer('verify', pairs));
  expect(objects<{ correct: boolean }>(verified.stdout).map(({ correct }) => correct)).toEqual([
    false,
    true,
    false,
  ]);
  const completions = linesFile(texts.map((completion, i) => ({ id: `p${i}`, completion, gold: '12' })));
  const json = await ended(spawnAcoer('eval', '--completions', completions, '--json'));
  expect(objects(json.stdout)[0]).toMatchObject({
    accuracy: 2 / 3,
    openThinking: { answers: 2, correct: 1 },
  });
  const table = await ended(spawnAcoer('eval', '--completions', completions));
  expect(table.stdout).toMatch(/^open thinking +2 answers, 1 of them correct$/m);
});
