/** Rules that involve several fields. Each reports one sentence and the path it is about. */
import { z } from 'zod';
import { findLoss } from '../losses/registry';
import { patternProblem } from './pattern';
import { grouped } from '../base/text';
import { problemsOf } from './problems';
import type { Config } from './fields';

export interface ConfigProblem {
  path: string;
  message: string;
}

type Rule<Settings = Config> = (config: Settings) => ConfigProblem | null;

/** The fields that every kind of run has rules about. */
export type CommonSettings = Pick<Config, 'promptTemplate' | 'targetModules' | 'full' | 'adapter' | 'dtype'>;

/** More completions than this at a time no machine holds: each is some kilobytes of ids, log-probs and text. */
export const MOST_COMPLETIONS = 1_000_000;

const commonRules: readonly Rule<CommonSettings>[] = [
  (c) =>
    c.promptTemplate.includes('{problem}')
      ? null
      : { path: 'promptTemplate', message: 'has no {problem}, so every prompt would be the same' },
  (c) =>
    new Set(c.targetModules).size === c.targetModules.length
      ? null
      : { path: 'targetModules', message: 'lists a module twice' },
  ({ full, adapter }) =>
    full && adapter !== null
      ? { path: 'adapter', message: 'is set, but `full` trains all weights; leave one of the two out' }
      : null,
  ({ full, dtype }) =>
    full && dtype === 'bfloat16'
      ? { path: 'dtype', message: 'must be float32 or float64 when `full` trains all weights' }
      : null,
];

const rules: readonly Rule[] = [
  ...commonRules,
  ({ promptsPerStep: prompts, stepsPerGeneration: steps, numGenerations: group }) => {
    const all = prompts * steps * group;
    if (all <= MOST_COMPLETIONS) return null;
    const product = [prompts, ...(steps === 1 ? [] : [steps]), group].map(grouped).join(' x ');
    const names = steps === 1 ? '' : ' x stepsPerGeneration';
    return {
      path: `promptsPerStep${names} x numGenerations`,
      message: `${product} = ${grouped(all)} completions would be sampled together, more than any machine holds (at most ${grouped(MOST_COMPLETIONS)})`,
    };
  },
  ({ evalProblems, evalSampledProblems }) => {
    const path = evalProblems > MOST_COMPLETIONS ? 'evalProblems' : 'evalSampledProblems';
    const most = Math.max(evalProblems, evalSampledProblems);
    if (most <= MOST_COMPLETIONS) return null;
    const message = `${grouped(most)} answers of an evaluation are more than any machine holds (at most ${grouped(MOST_COMPLETIONS)})`;
    return { path, message };
  },
  ({ lossParams }) => {
    for (const [name, given] of Object.entries(lossParams)) {
      const path = `lossParams.${name}`;
      const loss = findLoss(name);
      if (loss === undefined) return { path, message: 'is not a known loss' };
      const issue = z.strictObject(loss.parameters).safeParse(given).error?.issues[0];
      const [problem] = issue === undefined ? [] : problemsOf(issue, given, Object.keys(loss.parameters));
      if (problem !== undefined) return { path: `${path}.${problem.path}`, message: problem.message };
    }
    return null;
  },
  (c) => {
    if (c.delta === null) return null;
    if (findLoss(c.lossType)?.usesDelta === false) {
      return { path: 'delta', message: `has no effect with lossType ${c.lossType}; set it to null` };
    }
    const high = 1 + (c.epsilonHigh ?? c.epsilon);
    return c.delta > high
      ? null
      : {
          path: 'delta',
          message: `is ${c.delta}, but must be above 1 + epsilonHigh = ${high} to have an effect`,
        };
  },
  ({
    importanceSamplingCorrection: mode,
    importanceSamplingClipMin: min,
    importanceSamplingClipMax: max,
  }) => {
    const path = 'importanceSamplingClipMin';
    if (mode === null) return null;
    if (min !== null && max !== null && min >= max)
      return { path, message: `is ${min}, but must be below importanceSamplingClipMax = ${max}` };
    const unbounded = min === null && max === null && mode.endsWith('truncate');
    return unbounded
      ? {
          path,
          message: `or importanceSamplingClipMax must be set when importanceSamplingCorrection is ${mode}`,
        }
      : null;
  },
  ({ lossType, importanceSamplingCorrection: mode }) =>
    lossType === 'vespo' && mode?.startsWith('sequence') === true
      ? {
          path: 'importanceSamplingCorrection',
          message: `is ${mode}, but vespo already weights each sequence; use token_truncate or token_mask`,
        }
      : null,
  (c) =>
    c.epsilon < 1 || c.lossType === 'cispo'
      ? null
      : { path: 'epsilon', message: `is ${c.epsilon}, but 1 - epsilon must be above 0` },
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
      ? {
          path: 'reward',
          message: 'must not name "format", which is always included; set its weight with `formatWeight`',
        }
      : null;
  },
  ({ formatRule, formatPattern }) => {
    const path = 'formatPattern';
    if (formatPattern === null) {
      return formatRule === 'regex' ? { path, message: 'must be set when formatRule is regex' } : null;
    }
    if (formatRule !== 'regex') return { path, message: 'has no effect unless formatRule is regex' };
    const message = patternProblem(formatPattern);
    return message === null ? null : { path, message };
  },
  ({ judge, answerFrom }) =>
    judge === 'math' || answerFrom === 'answer'
      ? null
      : { path: 'answerFrom', message: `has no effect with the judge ${judge}; set it to answer` },
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
    c.maxPromptLength !== null && c.microBatchTokens < c.maxPromptLength
      ? {
          path: 'microBatchTokens',
          message: `is ${c.microBatchTokens}, but must hold at least one prompt of maxPromptLength = ${c.maxPromptLength} tokens`,
        }
      : null,
  (c) => {
    const meant = (['evalDatasetConfig', 'evalColumns'] as const).find((name) => c[name] !== null);
    return meant !== undefined && c.evalDataset === null
      ? { path: meant, message: 'has no effect without evalDataset; set evalDataset or leave this out' }
      : null;
  },
  (c) =>
    c.evalDataset !== null && c.evalProblems + c.evalSampledProblems === 0
      ? { path: 'evalDataset', message: 'is set, but evalProblems and evalSampledProblems are both 0' }
      : null,
];

/** Problems between the fields that every kind of run has. */
export function commonProblems(config: CommonSettings): ConfigProblem[] {
  return commonRules.map((rule) => rule(config)).filter((problem) => problem !== null);
}

/** Problems between the fields of a configuration whose fields are valid on their own. */
export function crossFieldProblems(config: Config): ConfigProblem[] {
  return rules.map((rule) => rule(config)).filter((problem) => problem !== null);
}
