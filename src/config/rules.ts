/** Rules between fields. Each is one sentence with the path it is about. */
import type { Config } from './fields';

export interface ConfigProblem {
  path: string;
  message: string;
}

type Rule = (config: Config) => ConfigProblem | null;

const rules: Rule[] = [
  (c) =>
    c.promptTemplate.includes('{problem}')
      ? null
      : { path: 'promptTemplate', message: 'has no {problem}, so every prompt would be the same' },
  (c) => {
    if (c.delta === null) return null;
    if (c.lossType === 'cispo' || c.lossType === 'sapo' || c.lossType === 'vespo') {
      return { path: 'delta', message: `has no effect with lossType ${c.lossType}; set it to null` };
    }
    const high = 1 + (c.epsilonHigh ?? c.epsilon);
    return c.delta > high
      ? null
      : {
          path: 'delta',
          message: `is ${c.delta}, but must be above 1 + epsilonHigh = ${high} to bound anything`,
        };
  },
  (c) =>
    c.epsilon < 1 || c.lossType === 'cispo'
      ? null
      : { path: 'epsilon', message: `is ${c.epsilon}, but 1 - epsilon must stay above 0` },
  (c) => {
    if (typeof c.reward === 'string') return null;
    const names = c.reward.map((entry) => entry.name);
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    return twice === undefined
      ? null
      : { path: 'reward', message: `lists "${twice}" twice; give it one weight` };
  },
  (c) => {
    const names = typeof c.reward === 'string' ? [c.reward] : c.reward.map((entry) => entry.name);
    return names.includes('format')
      ? { path: 'reward', message: '"format" is always there; set its weight with `formatWeight`' }
      : null;
  },
  (c) =>
    c.multiObjectiveAggregation === 'sum_then_normalize' || c.scaleRewards === 'group'
      ? null
      : { path: 'scaleRewards', message: 'has no effect with normalize_then_sum; leave it at group' },
  (c) =>
    c.numRemainsInGroup === null || c.numRemainsInGroup <= c.numGenerations
      ? null
      : {
          path: 'numRemainsInGroup',
          message: `is ${c.numRemainsInGroup}, more than numGenerations = ${c.numGenerations}`,
        },
  (c) =>
    new Set(c.targetModules).size === c.targetModules.length
      ? null
      : { path: 'targetModules', message: 'names a module twice' },
  (c) =>
    c.maxPromptLength !== null && c.microBatchTokens < c.maxPromptLength
      ? {
          path: 'microBatchTokens',
          message: `is ${c.microBatchTokens}, less than one prompt of maxPromptLength = ${c.maxPromptLength} tokens`,
        }
      : null,
  (c) => {
    const meant = (['evalDatasetConfig', 'evalColumns'] as const).find((name) => c[name] !== null);
    return meant !== undefined && c.evalDataset === null
      ? { path: meant, message: 'is given without evalDataset, which it is about' }
      : null;
  },
  (c) =>
    c.evalDataset !== null && c.evalProblems + c.evalSampledProblems === 0
      ? { path: 'evalDataset', message: 'is given, but evalProblems and evalSampledProblems are both 0' }
      : null,
];

/** What is wrong between the fields of a configuration whose fields are each right. */
export function crossFieldProblems(config: Config): ConfigProblem[] {
  return rules.map((rule) => rule(config)).filter((problem) => problem !== null);
}
