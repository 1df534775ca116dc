/**
 * Inputs and results of the reward lab. Lengths are in tokens, derivatives per token. Without epsilon,
 * d(advantage)/d(length) is infinite (null in JSON) in a group whose rewards are all equal.
 */
import type { RewardScale } from '../grpo/advantages';
import type { BoundReward } from '../rewards/types';
import type { Group } from '../base/types';

/** How rewards become advantages, as in a run's configuration. */
export interface LabSettings {
  /** L: `maxCompletionLength`. */
  maxLength: number;
  /** Added to the standard deviation before dividing; 1e-4 in TRL, absent from the paper's equation. */
  epsilon: number;
  scale: RewardScale;
  /** Weight of the format reward that the loop adds to every answer. */
  formatWeight: number;
  timeoutMs: number;
}

/** The object of study: a reward in a state, under some settings. */
export interface Subject {
  reward: BoundReward;
  state: unknown;
  settings: LabSettings;
}

/** A reward on groups of a population. */
export interface Study extends Subject {
  population: Population;
}

/** One group within its batch. */
export interface Scene {
  batch: readonly Group[];
  /** Index of the group under study. */
  own: number;
  /** Number of updates before the batch. */
  step: number;
}

export const CLASSES = ['correct', 'incorrect'] as const;
export type AnswerClass = (typeof CLASSES)[number];
export const COMPOSITIONS = ['mixed', 'allIncorrect', 'allCorrect'] as const;
export type Composition = (typeof COMPOSITIONS)[number];

/** Where groups come from: how often answers are correct, and lengths for any number of answers. */
export interface Population {
  /** Fraction of correct answers, 0..1. */
  accuracy: number;
  groupSize: number;
  /** `count` thinking lengths. */
  lengths(kind: AnswerClass, count: number): number[];
  /** Tokens of a completion that are not thinking. */
  answerTokens: Readonly<Record<AnswerClass, number>>;
}

/** One answer of the displayed group. */
export interface LabAnswer {
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
  reward: number;
  advantage: number;
  /** d(reward)/d(own length) and d(advantage)/d(own length), with everything else fixed. */
  rewardSlope: number;
  advantageSlope: number;
}

/** Means over the answers of one class in one group. */
export interface ClassPressure {
  count: number;
  rewardSlope: number;
  advantageSlope: number;
  /** The same without epsilon, as in the paper's equation. */
  advantageSlopeNoEpsilon: number;
  /** Largest |advantage|. */
  largestAdvantage: number;
  /** Fraction of the answers whose reward changes with their length. */
  activeShare: number;
  /** Fractions of the answers whose advantage falls, and rises, with their length. */
  shorterShare: number;
  longerShare: number;
}

/** A group whose lengths were pulled towards their class's mean. */
export interface SpreadPoint {
  /** Factor on every distance from the class's mean length. */
  factor: number;
  /** Standard deviation (Bessel) of the lengths of each class; null for fewer than two answers. */
  lengthStd: Record<AnswerClass, number | null>;
  /** null when the group has no answer of that class. */
  correct: ClassPressure | null;
  incorrect: ClassPressure | null;
}

export interface CompositionSweep {
  points: SpreadPoint[];
  /**
   * k if |d(advantage)/d(length)| grows as 1 / spread^k without epsilon: 1 is the divergence of Proposition
   * 1, 0 a constant pressure. null when there is no pressure, or no spread to shrink.
   */
  order: Record<AnswerClass, number | null>;
}

/** Two answers of one class, `difference` tokens apart. */
export interface PairPoint {
  difference: number;
  /** |advantage| of either, with the settings' epsilon and without. */
  advantage: number;
  advantageNoEpsilon: number;
  /** Advantage of the longer minus the shorter, per token. */
  slope: number;
  slopeNoEpsilon: number;
}

/** One answer's reward and advantage as a function of its own length, over the whole range. */
export interface LengthCurve {
  length: number[];
  reward: number[];
  rewardSlope: number[];
  advantage: number[];
}

/** `none`: length has no effect; `steps`: jumps between flat parts; `continuous`: a slope somewhere. */
export type SignalForm = 'none' | 'steps' | 'continuous';

export interface LengthSignal {
  form: SignalForm;
  /** Shortest and longest length of the curve with a slope, or null. */
  range: [number, number] | null;
  /** It has a slope at the lengths of the groups under study. */
  active: boolean;
}

/** Pressure on correct answers after the state saw accuracy hold, and after it saw accuracy halve. */
export interface Adaptation {
  /** Mean |d(reward)/d(length)| of the correct answers. */
  held: number;
  fallen: number;
  /** fallen / held, or null when there is no pressure to compare. */
  ratio: number | null;
}

/** The spread of one group's rewards. */
export interface GroupSpread {
  /** Standard deviation (Bessel). */
  std: number;
  /**
   * Derivative of `std` with respect to the logarithm of the length weight; equal to `std` when the spread
   * comes from length alone.
   */
  growth: number;
}

/** The lab's groups at one weight of the length term. */
export interface LengthWeight {
  /** Factor on the reward's own weight. */
  factor: number;
  /** The state's alpha at that weight; null for a reward without one. */
  alpha: number | null;
  allCorrect: GroupSpread;
  mixed: GroupSpread;
}

export interface Prediction {
  /** The collapse pathways of the paper's section 4.2 that this reward opens. */
  pathways: (1 | 2)[];
  /** The reward's own state relieves the pressure when accuracy falls. */
  guarded: boolean;
  /** One sentence. */
  reason: string;
}

export interface RewardReport {
  name: string;
  state: unknown;
  /** The mixed group, answer by answer, shortest first and correct before incorrect. */
  answers: LabAnswer[];
  sweeps: Record<Composition, CompositionSweep>;
  /** Section 4.2: d(advantage)/d(length) of incorrect answers is about d(reward)/d(length) / C. */
  mixedPressure: { C: number; approximate: number; exact: number } | null;
  /** Proposition 1, and the same for two correct answers (pathway 2). */
  pairs: Record<AnswerClass, PairPoint[]>;
  curves: Record<AnswerClass, LengthCurve>;
  signals: Record<AnswerClass, LengthSignal>;
  /** Signals once the state has seen groups like these for a while. */
  settledSignals: Record<AnswerClass, LengthSignal>;
  /**
   * What is left of the length weight after the advantage's division; empty if length does not affect correct
   * answers.
   */
  lengthWeights: LengthWeight[];
  adaptation: Adaptation;
  prediction: Prediction;
  recorded: RecordedReward | null;
}

/** What a reward gives the recorded groups: means, or null where nothing was recorded. */
export interface RecordedReward {
  reward: Record<AnswerClass, number | null>;
  advantage: Record<AnswerClass, number | null>;
  /** Mean d(advantage)/d(own length) by the group's composition. */
  advantageSlope: Record<Composition, Record<AnswerClass, number | null>>;
  /** Fraction of groups whose rewards are all equal. */
  fracZeroStd: number;
  /** The answers in recorded order; only in JSON. */
  answers: RecordedAnswer[];
}

export interface RecordedAnswer extends LabAnswer {
  step: number;
  group: string;
}

/** Appendix F at one accuracy. */
export interface CompositionRow {
  accuracy: number;
  allCorrect: number;
  allIncorrect: number;
  mixed: number;
  /** More than half of the answers wrong. */
  mostlyIncorrect: number;
  /** sqrt(p (1 - p)): C of section 4.2 for rewards of 0 and 1. */
  C: number;
}

export interface RecordedSummary {
  steps: number;
  groups: number;
  answers: number;
  shares: Record<Composition, number>;
}

export interface LabReport {
  settings: LabSettings;
  groupSize: number;
  accuracy: number;
  /** Number of correct answers in the mixed group. */
  correctCount: number;
  lengths: Record<AnswerClass, { mean: number; std: number | null }>;
  recorded: RecordedSummary | null;
  compositions: CompositionRow[];
  rewards: RewardReport[];
}
