/** Duplicates between training data and benchmarks that the test made. */
import { datasetOf, overlapOf, overlapText, type Overlap } from '../../src/data';
import { plainWords } from '../../src/data/overlap';

const LONG =
  'A train leaves the station at noon and travels north at sixty miles per hour while a second train follows it two hours later at ninety miles per hour; when do they meet?';

const dataset = (name: string, questions: readonly string[]) =>
  datasetOf(
    name,
    questions.map((problem) => ({ problem, answer: '1' })),
    { split: 'eval', seed: 1 },
  );

async function overlap(benchmark: readonly string[], training: readonly string[]): Promise<Overlap> {
  return overlapOf(await dataset('b', benchmark), await dataset('t', training));
}

const counts = ({ exact, near }: Overlap) => [exact.length, near.length];

test.each([
  ['the same', LONG, LONG],
  ['case, spaces and a full stop', 'Compute $x+1$ for x = 3.', 'compute  x + 1 for $x=3$'],
  ['spacing of LaTeX', String.raw`Find $\left( a \right)\, b$`, String.raw`Find $( a ) b$.`],
  ['a short question', 'What is 2+2?', 'what is 2 + 2'],
])('exactly: %s', async (_, benchmark, training) => {
  expect(counts(await overlap([benchmark], ['Something else.', training]))).toEqual([1, 0]);
});

test.each([
  ['another operator', 'Compute $x+1$ for x = 3.', 'Compute $x-1$ for x = 3.'],
  ['another number', 'What is 2+2?', 'What is 2+3?'],
  ['digits apart', 'Write 3 4 as one.', 'Write 34 as one.'],
  ['a factorial', 'What is 5! ?', 'What is 5?'],
  ['twelve words in common', LONG, `${LONG.split(' ').slice(0, 12).join(' ')} elsewhere.`],
  ['a short question inside a row', 'What is 2+2?', 'Someone asked: what is 2+2? Nobody knew.'],
])('not: %s', async (_, benchmark, training) => {
  expect(counts(await overlap([benchmark], [training]))).toEqual([0, 0]);
});

test('nearly: thirteen words in common, or all words of a shorter question', async () => {
  const longer = `In a village, ${LONG.toLowerCase().replace('when do they meet?', 'how far apart are they at dawn?')}`;
  const shorter = 'How many primes are below ten?';
  const found = await overlap([LONG, shorter], [longer, `Tell me: how many primes are below ten? And why?`]);
  expect(found).toEqual({
    problems: 2,
    exact: [],
    near: [
      { id: '0', trainingId: '0' },
      { id: '1', trainingId: '1' },
    ],
  });
  expect(overlapText('math500', found)).toBe(
    'contamination: 0 of 2 problems of math500 are also in the training data, 2 nearly',
  );
});

test('a turn of phrase of more than ten rows is no copy', async () => {
  const phrase = 'Find the sum of all positive integers n such that the following expression is an integer:';
  const rows = (n: number) => Array.from({ length: n }, (_, i) => `${phrase} n divided by ${i + 100}`);
  expect(counts(await overlap([`${phrase} n over 7`], rows(10)))).toEqual([0, 1]);
  expect(counts(await overlap([`${phrase} n over 7`], rows(11)))).toEqual([0, 0]);
});

test('a problem that is there exactly is not there nearly as well', async () => {
  expect(counts(await overlap([LONG], [LONG, `${LONG} Really?`]))).toEqual([1, 0]);
});

test('words keep numbers and operators', () => {
  expect(plainWords('Is $3.5$ “more” than 3? Yes, by 1/2!')).toEqual([
    'is',
    '3.5',
    'more',
    'than',
    '3',
    'yes',
    'by',
    '1/2!',
  ]);
});
