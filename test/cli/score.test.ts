import { acoer, linesFile, objects } from '../helpers/cli';
import { textModel } from '../helpers/text-model';

interface Line {
  logprobs: number[];
  entropies: number[];
}

const model = textModel();

async function score(lines: readonly unknown[], ...flags: string[]): Promise<Line[]> {
  const { code, stdout, stderr } = await acoer('score', '--model', model, ...flags, linesFile(lines));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return objects<Line>(stdout);
}

test('one line per input line, in order, one number per token from promptLength on', async () => {
  const lines = Array.from({ length: 300 }, (_, n) => ({
    ids: Array.from({ length: 5 + (n % 60) }, (_, t) => (7 * n + 3 * t) % 64),
    promptLength: 1 + (n % 5),
  }));
  const scores = await score(lines);
  expect(scores.map((s) => s.logprobs.length)).toEqual(lines.map((l) => l.ids.length - l.promptLength));
  expect(scores.map((s) => s.entropies.length)).toEqual(scores.map((s) => s.logprobs.length));
  // The same sequence alone: packing changes nothing but rounding.
  const [alone] = await score([lines[250]]);
  alone!.logprobs.forEach((logprob, t) => expect(logprob).toBeCloseTo(scores[250]!.logprobs[t]!, 5));
});

test('log-probs of every continuation add up to probability 1, and give the entropy', async () => {
  const prompt = [3, 1, 4, 1, 5];
  const lines = Array.from({ length: 64 }, (_, id) => ({ ids: [...prompt, id], promptLength: 5 }));
  const scores = await score(lines, '--dtype', 'float64');
  const logprobs = scores.map((s) => s.logprobs[0]!);
  const sum = logprobs.reduce((total, logprob) => total + Math.exp(logprob), 0);
  const entropy = logprobs.reduce((total, logprob) => total - Math.exp(logprob) * logprob, 0);
  expect(sum).toBeCloseTo(1, 10);
  for (const { entropies } of scores) expect(entropies[0]).toBeCloseTo(entropy, 10);
});

test('a line that is all prompt gives empty results', async () => {
  const scores = await score([
    { ids: [1, 2], promptLength: 2 },
    { ids: [1, 2], promptLength: 1 },
  ]);
  expect(scores[0]).toEqual({ logprobs: [], entropies: [] });
  expect(scores[1]!.logprobs).toHaveLength(1);
});

test.each([
  [
    'no promptLength',
    { ids: [1, 2] },
    /line 2: "promptLength" is missing; it must be a whole number from 1 to 2/,
  ],
  ['promptLength 0', { ids: [1, 2], promptLength: 0 }, /line 2: "promptLength" is 0/],
  ['promptLength beyond the ids', { ids: [1, 2], promptLength: 3 }, /"promptLength" is 3/],
  ['no ids', { promptLength: 1 }, /line 2: "ids" must be a non-empty list/],
  ['a negative id', { ids: [1, -2], promptLength: 1 }, /"ids"\[1\] is -2/],
  [
    'too many ids',
    { ids: new Array(4097).fill(1), promptLength: 1 },
    /4097 ids, but the model has only 4096 positions/,
  ],
] as [string, unknown, RegExp][])('%s exits with 2 before any output', async (_, line, message) => {
  const good = { ids: [1, 2, 3], promptLength: 1 };
  const { code, stdout, stderr } = await acoer('score', '--model', model, linesFile([good, line]));
  expect(stderr).toMatch(message);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});
