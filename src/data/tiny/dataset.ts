import type { Problem } from '../../base/types';
import { RandomStream } from '../random';
import type { Dataset } from '../load';
import { answer, type Chain, drawFrom, LONGEST_QUESTION, question, TINY_LEVELS } from './task';

/** Number of training problems before the order repeats. */
const TRAIN_SIZE = 2 ** 17;
const EVAL_SIZE = 1000;

function toProblem(chain: Chain, id: string): Problem {
  return { id, question: question(chain), gold: String(answer(chain)), level: String(chain.level) };
}

/** Row i is of level 1 + i % 5. The stream depends on `seed`; rows are generated on demand. */
function trainSplit(seed: number): Dataset {
  return {
    name: 'tiny',
    size: TRAIN_SIZE,
    longestQuestion: LONGEST_QUESTION,
    get: (index) => {
      const level = TINY_LEVELS[index % TINY_LEVELS.length]!;
      const random = new RandomStream(seed, 'tiny train', index);
      return toProblem(drawFrom(random, level, 'train'), `tiny-train-${index}`);
    },
  };
}

/** Distinct held-out problems, the same for every seed so that runs compare. Row i is of level 1 + i % 5. */
function evalSplit(): Dataset {
  const seen = new Set<string>();
  const problems: Problem[] = [];
  const random = new RandomStream(0, 'tiny eval');
  while (problems.length < EVAL_SIZE) {
    const index = problems.length;
    const problem = toProblem(
      drawFrom(random, TINY_LEVELS[index % TINY_LEVELS.length]!, 'eval'),
      `tiny-eval-${index}`,
    );
    if (seen.has(problem.question)) continue;
    seen.add(problem.question);
    problems.push(problem);
  }
  return { name: 'tiny', size: problems.length, get: (index) => problems[index]! };
}

export function tinyDataset(split: 'train' | 'eval', seed: number): Dataset {
  return split === 'train' ? trainSplit(seed) : evalSplit();
}
