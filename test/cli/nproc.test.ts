/** The words of `acoer train --nproc`. */
import { wordsOfRank } from '../../src/cli/nproc';
import { acoer } from '../helpers/cli';

test.each([
  ['train mine.yaml --nproc 2 --out runs/mine', 'train mine.yaml --out runs/mine'],
  ['train --max-restarts=3 --seed 1 --nproc=2', 'train --seed 1'],
  ['train --nproc 2 --max-restarts 3 --nproc 4', 'train'],
])('a rank of `acoer %s` is `acoer %s`', (words, own) => {
  expect(wordsOfRank(words.split(' '))).toEqual(own.split(' '));
});

test.each([
  [['--max-restarts', '3'], '--max-restarts goes with --nproc of 2 or more.'],
  [['--nproc', '2', '--max-restarts', '-1'], 'It must be a whole number of at least 0.'],
  [['--nproc', '0'], 'It must be a whole number of at least 1.'],
])('%j is refused', async (words, sentence) => {
  const { code, stderr } = await acoer('train', ...words);
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(sentence) });
});
