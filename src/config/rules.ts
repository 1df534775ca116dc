/** Rules that involve several fields. Each reports one sentence and the path it is about. */
import { z } from 'zod';
import { findLoss } from '../losses/registry';
import { patternProblem } from './pattern';
import { grouped } from '../base/text';
import { problemsOf } from './problems';
import { IN_FLIGHT_FAULTS } from './in-flight';
import { MOST_COMPLETIONS } from './limits';
import { SERVED_FAULTS } from './samplers';
import type { Config } from './fields';

export interface ConfigProblem {
  path: string;
  message: string;
}

type Rule<Settings = Config> = (config: Settings) => ConfigProblem | null;

/** By the setting that a problem is about: what is wrong with it, or null. */
type Faults<Settings> = Readonly<Partial<Record<keyof Settings, (config: Settings) => string | null>>>;

const rulesOf = <Settings>(faults: Faults<Settings>): Rule<Settings>[] =>
  Object.entries<((config: Settings) => string | null) | undefined>(faults).map(
    ([path, fault]) =>
      (config) => {
        const message = fault!(config);
        return message === null ? null : { path, message };
      },
  );

/** The fields that every kind of run has rules about. */
export type CommonSettings = Pick<
  Config,
  'promptTemplate' | 'targetModules' | 'full' | 'adapter' | 'dtype' | 'quantization'
>;

const commonRules = rulesOf<CommonSettings>({
  promptTemplate: (c) =>
    c.promptTemplate.includes('{problem}') ? null : 'has no {problem}, so every prompt would be the same',
  targetModules: (c) =>
    new Set(c.targetModules).size === c.targetModules.length ? null : 'lists a module twice',
  adapter: ({ full, adapter }) =>
    full && adapter !== null ? 'is set, but `full` trains all weights; leave one of the two out' : null,
  dtype: ({ full, dtype }) =>
    full && dtype === 'bfloat16' ? 'must be float32 or float64 when `full` trains all weights' : null,
  quantization: ({ full, quantization }) =>
    full && quantization !== null
      ? `is ${quantization}, but \`full\` trains all weights, which cannot be quantised; leave one of the two out`
      : null,
});

const rewardNames = ({ reward }: Config) =>
  typeof reward === 'string' ? [reward] : reward.map(({ name }) => name);

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
  ...rulesOf<Config>({
    delta(c) {
      if (c.delta === null) return null;
      if (findLoss(c.lossType)?.usesDelta === false)
        return `has no effect with lossType ${c.lossType}; set it to null`;
      const high = 1 + (c.epsilonHigh ?? c.epsilon);
      return c.delta > high
        ? null
        : `is ${c.delta}, but must be above 1 + epsilonHigh = ${high} to have an effect`;
    },
    importanceSamplingClipMin({
      importanceSamplingCorrection: mode,
      importanceSamplingClipMin: min,
      importanceSamplingClipMax: max,
    }) {
      if (mode === null) return null;
      if (min !== null && max !== null && min >= max)
        return `is ${min}, but must be below importanceSamplingClipMax = ${max}`;
      return min === null && max === null && mode.endsWith('truncate')
        ? `or importanceSamplingClipMax must be set when importanceSamplingCorrection is ${mode}`
        : null;
    },
    importanceSamplingCorrection: ({ lossType, importanceSamplingCorrection: mode }) =>
      lossType === 'vespo' && mode?.startsWith('sequence') === true
        ? `is ${mode}, but vespo already weights each sequence; use token_truncate or token_mask`
        : null,
    epsilon: ({ epsilon, lossType }) =>
      epsilon < 1 || lossType === 'cispo' ? null : `is ${epsilon}, but 1 - epsilon must be above 0`,
    reward(c) {
      const twice = rewardNames(c).find((name, i, names) => names.indexOf(name) !== i);
      return twice === undefined ? null : `lists "${twice}" twice; give it one weight`;
    },
  }),
  ...rulesOf<Config>({
    reward: (c) =>
      rewardNames(c).includes('format')
        ? 'must not name "format", which is always included; set its weight with `formatWeight`'
        : null,
    formatPattern({ formatRule, formatPattern }) {
      if (formatPattern === null)
        return formatRule === 'regex' ? 'must be set when formatRule is regex' : null;
      return formatRule === 'regex'
        ? patternProblem(formatPattern)
        : 'has no effect unless formatRule is regex';
    },
    answerFrom: ({ judge, answerFrom }) =>
      judge === 'math' || answerFrom === 'answer'
        ? null
        : `has no effect with the judge ${judge}; set it to answer`,
    scaleRewards: (c) =>
      c.multiObjectiveAggregation === 'sum_then_normalize' || c.scaleRewards === 'group'
        ? null
        : 'has no effect with normalize_then_sum; leave it at group',
    numRemainsInGroup: ({ numRemainsInGroup: remaining, numGenerations }) =>
      remaining === null || remaining <= numGenerations
        ? null
        : `is ${remaining}, more than numGenerations = ${numGenerations}`,
    microBatchTokens: ({ microBatchTokens: tokens, maxPromptLength: longest }) =>
      longest !== null && tokens < longest
        ? `is ${tokens}, but must hold at least one prompt of maxPromptLength = ${longest} tokens`
        : null,
  }),
  (c) => {
    const meant = (['evalDatasetConfig', 'evalColumns'] as const).find((name) => c[name] !== null);
    return meant !== undefined && c.evalDataset === null
      ? { path: meant, message: 'has no effect without evalDataset; set evalDataset or leave this out' }
      : null;
  },
  ...rulesOf<Config>({
    evalDataset: (c) =>
      c.evalDataset !== null && c.evalProblems + c.evalSampledProblems === 0
        ? 'is set, but evalProblems and evalSampledProblems are both 0'
        : null,
  }),
  ...rulesOf<Config>(SERVED_FAULTS),
  ...rulesOf<Config>(IN_FLIGHT_FAULTS),
];

const problemsUnder = <Settings>(all: readonly Rule<Settings>[], config: Settings): ConfigProblem[] =>
  all.map((rule) => rule(config)).filter((problem) => problem !== null);

/** Problems between the fields that every kind of run has. */
export const commonProblems = (config: CommonSettings): ConfigProblem[] => problemsUnder(commonRules, config);

/** Problems between the fields of a configuration whose fields are valid on their own. */
export const crossFieldProblems = (config: Config): ConfigProblem[] => problemsUnder(rules, config);
