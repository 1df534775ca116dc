/** Named starting points. What a preset does not name has the schema's default, the paper's value. */
import type { ConfigInput } from './options.generated';

/**
 * The embedded model on the embedded task: minutes on two cores. The controller is scaled to 200 short steps.
 * Epsilon is close to the largest alpha times the std of the bonus among correct answers, so that alpha has
 * an effect on groups of correct answers too (docs/rewards.md).
 */
const tiny: ConfigInput = {
  model: 'tiny',
  dataset: 'tiny',
  promptTemplate: '{problem}',
  promptsPerStep: 8,
  numGenerations: 4,
  maxCompletionLength: 256,
  lossType: 'dapo',
  advantageEpsilon: 0.2,
  learningRate: 1.2e-3,
  lrSchedulerType: 'cosine',
  warmupRatio: 0.1,
  maxSteps: 200,
  saveSteps: 100,
  evalSteps: 0,
  evalProblems: 300,
  evalSampledProblems: 500,
  evalMaxNewTokens: 256,
  logCompletions: 100,
  rewardParams: {
    acoer: { alphaUp: 1.1, alphaDown: 0.74, warmupSteps: 20, checkWindow: 20, emaSpan: 10, minBudget: 16 },
  },
  monitor: { preset: 'embedded' },
};

/** `tiny` with TRL's epsilon and a higher, constant rate: alpha hardly affects groups of correct answers. */
const slide: ConfigInput = {
  ...tiny,
  advantageEpsilon: 1e-4,
  learningRate: 1.5e-3,
  lrSchedulerType: 'constant',
  warmupRatio: 0.05,
};

/**
 * `tiny` with problems that the model cannot solve and TRL's epsilon, as in the paper's run: rewards that touch
 * the length of wrong answers, ACOER and a static bonus come apart (docs/paper-again.md).
 */
const tinyHard: ConfigInput = { ...tiny, dataset: 'tiny-hard', advantageEpsilon: 1e-4 };

/** How the authors' released code trains, where it goes beyond the paper or differs from it. */
const authorsCode: ConfigInput = {
  dataset: 'math + gsm8k',
  dropUnparsedGold: false,
  answerFrom: 'last-box',
  rewardParams: {
    acoer: {
      lengthOf: 'first-block',
      lengthUnit: 'chars',
      initialBudget: 4096,
      openThinking: 'zero-length',
      noCorrectLength: 'zero',
    },
  },
  lossType: 'dapo',
  beta: 0.001,
  loraDropout: 0.05,
  warmupRatio: 0.05,
  weightDecay: 0,
};

export interface Preset {
  summary: string;
  values: ConfigInput;
}

export const PRESETS: Readonly<Record<string, Preset>> = {
  tiny: { summary: 'the embedded model and task, ACOER, 200 steps: what `node train.js` runs', values: tiny },
  'tiny-hard': {
    summary:
      "tiny with problems too hard for the model and TRL's epsilon: where the rewards come apart as in the paper",
    values: tinyHard,
  },
  slide: {
    summary:
      "tiny with TRL's epsilon at a constant learning rate, under which a static length reward over-compresses (--reward grpo-lp)",
    values: slide,
  },
  paper: {
    summary: "the paper's run: Qwen3-1.7B, LoRA, one prompt x 16 completions, 1,200 steps",
    values: {},
  },
  'authors-code': {
    summary:
      "the configuration of the authors' released code: MATH and GSM8K, lengths in characters, KL 0.001, LoRA dropout",
    values: authorsCode,
  },
};

/** The preset when none is named: tiny for the embedded model or when no model is named, else paper. */
export function defaultPreset(model: unknown): string {
  return model === undefined || model === 'tiny' ? 'tiny' : 'paper';
}
