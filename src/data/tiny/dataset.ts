import { maximum } from '../../base/statistics';
import type { Problem } from '../../base/types';
import { RandomStream } from '../random';
import type { Dataset } from '../load';
import { answer, type Chain, drawFrom, EMBEDDED_TASKS, longestQuestion, question } from './task';

/** Number of training problems before the order repeats. */
const TRAIN_SIZE = 2 ** 17;
const EVAL_SIZE = 1000;

function toProblem(chain: Chain, id: string): Problem {
  return { id, question: question(chain), gold: String(answer(chain)), level: String(chain.level) };
}

/** Rows have the task's levels in turn. The stream depends on `seed`; rows are generated on demand. */
function trainSplit(name: string, levels: readonly number[], seed: number): Dataset {
  return {
    name,
    size: TRAIN_SIZE,
    longestQuestion: longestQuestion(maximum(levels)),
    get: (index) => {
      const level = levels[index % levels.length]!;
      const random = new RandomStream(seed, `${name} train`, index);
      return toProblem(drawFrom(random, level, 'train'), `${name}-train-${index}`);
    },
  };
}

/** Distinct held-out problems with the task's levels in turn, the same for every seed so that runs compare. */
function evalSplit(name: string, levels: readonly number[]): Dataset {
  const seen = new Set<string>();
  const problems: Problem[] = [];
  const random = new RandomStream(0, `${name} eval`);
  while (problems.length < EVAL_SIZE) {
    const index = problems.length;
    const problem = toProblem(
      drawFrom(random, levels[index % levels.length]!, 'eval'),
      `${name}-eval-${index}`,
    );
    if (seen.has(problem.question)) continue;
    seen.add(problem.question);
    problems.push(problem);
  }
  return { name, size: problems.length, get: (index) => problems[index]! };
}

/** @param name one of EMBEDDED_TASKS */
export function embeddedDataset(name: string, split: 'train' | 'eval', seed: number): Dataset {
  const { levels } = EMBEDDED_TASKS[name]!;
  return split === 'train' ? trainSplit(name, levels, seed) : evalSplit(name, levels);
}
