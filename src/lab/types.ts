/**
 * What the reward lab is asked, and what it answers. Lengths are tokens; derivatives are per token. In a group of one reward
 * and without epsilon d(advantage)/d(length) is infinite (null in JSON).
 */
import type { RewardScale } from '../grpo/advantages';
import type { BoundReward } from '../rewards/types';
import type { Group } from '../types';

/** How rewards become advantages, as in a run's configuration. */
export interface LabSettings {
  /** L: `maxCompletionLength`. */
  maxLength: number;
  /** Added to a standard deviation before it divides; TRL's is 1e-4, the paper's equation has none. */
  epsilon: number;
  scale: RewardScale;
  /** Weight of the format reward that the loop adds to every answer. */
  formatWeight: number;
  timeoutMs: number;
}

/** A reward in a state, under some settings: what is looked at. */
export interface Subject {
  reward: BoundReward;
  state: unknown;
  settings: LabSettings;
}

/** One group within its batch. */
export interface Scene {
  batch: readonly Group[];
  /** Index of the group looked at. */
  own: number;
  /** Updates finished before the batch. */
  step: number;
}

export type AnswerClass = 'correct' | 'incorrect';
export const COMPOSITIONS = ['mixed', 'allIncorrect', 'allCorrect'] as const;
export type Composition = (typeof COMPOSITIONS)[number];

/** Where groups come from: how often answers are right, and lengths for any number of answers. */
export interface Population {
  /** Share of correct answers, 0..1. */
  accuracy: number;
  groupSize: number;
  /** `count` numbers of thinking tokens. */
  lengths(kind: AnswerClass, count: number): number[];
  /** Tokens of a completion that are not thinking. */
  answerTokens: Readonly<Record<AnswerClass, number>>;
}

/** One answer of the group shown. */
export interface LabAnswer {
  correct: boolean;
  thinkingTokens: number;
  totalTokens: number;
  reward: number;
  advantage: number;
  /** d(reward)/d(own length) and d(advantage)/d(own length), everything else held. */
  rewardSlope: number;
  advantageSlope: number;
}

/** Means over the answers of one class in one group. */
export interface ClassPressure {
  count: number;
  rewardSlope: number;
  advantageSlope: number;
  /** The same with no epsilon, as the paper writes the advantage. */
  advantageSlopeNoEpsilon: number;
  /** Largest |advantage|. */
  largestAdvantage: number;
  /** Share of the answers whose reward changes with their length. */
  activeShare: number;
  /** Share of the answers whose advantage falls, and rises, with their length. */
  shorterShare: number;
  longerShare: number;
}

/** A group whose lengths were drawn towards their class's mean. */
export interface SpreadPoint {
  /** Factor on every distance from the class's mean length. */
  factor: number;
  /** Standard deviation (Bessel) of the lengths of each class; null below two answers. */
  lengthStd: Record<AnswerClass, number | null>;
  /** null: the group has no answer of that class. */
  correct: ClassPressure | null;
  incorrect: ClassPressure | null;
}

export interface CompositionSweep {
  points: SpreadPoint[];
  /**
   * k where |d(advantage)/d(length)| grows as 1 / spread^k without epsilon: 1 is the divergence of Proposition 1,
   * 0 a constant pressure. null: no pressure, or no spread to shrink.
   */
  order: Record<AnswerClass, number | null>;
}

/** Two answers of one class, `difference` tokens apart. */
export interface PairPoint {
  difference: number;
  /** |advantage| of either, with the settings' epsilon and with none. */
  advantage: number;
  advantageNoEpsilon: number;
  /** Advantage of the longer minus the shorter, per token. */
  slope: number;
  slopeNoEpsilon: number;
}

/** How one answer's reward and advantage follow its own length over the whole range. */
export interface LengthCurve {
  length: number[];
  reward: number[];
  rewardSlope: number[];
  advantage: number[];
}

/** `none`: length never counts; `steps`: only by jumps between flat parts; `continuous`: it has a slope somewhere. */
export type SignalForm = 'none' | 'steps' | 'continuous';

export interface LengthSignal {
  form: SignalForm;
  /** Shortest and longest length of the curve with a slope; null without any. */
  range: [number, number] | null;
  /** It has a slope at the lengths of the groups looked at. */
  active: boolean;
}

/** Pressure on correct answers after the state saw accuracy hold, and after it saw accuracy halve. */
export interface Adaptation {
  /** Mean |d(reward)/d(length)| of the correct answers. */
  held: number;
  fallen: number;
  /** fallen / held; null when there is no pressure to compare. */
  ratio: number | null;
}

/** Of the rewards of one group. */
export interface GroupSpread {
  /** Standard deviation (Bessel). */
  std: number;
  /** Its derivative by the logarithm of the length weight; `std` itself where length alone makes it. */
  growth: number;
}

/** The lab's groups at one weight of what length earns. */
export interface LengthWeight {
  /** On the reward's own weight. */
  factor: number;
  /** The state's alpha at that weight; null for a reward that keeps none. */
  alpha: number | null;
  allCorrect: GroupSpread;
  mixed: GroupSpread;
}

export interface Prediction {
  /** The collapse pathways of the paper's section 4.2 that this reward opens. */
  pathways: (1 | 2)[];
  /** The reward's own state takes the pressure back when accuracy falls. */
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
  /** Once the state has seen groups like these for a while. */
  settledSignals: Record<AnswerClass, LengthSignal>;
  /** What the advantage's division leaves of the length weight; empty where correct answers feel no length. */
  lengthWeights: LengthWeight[];
  adaptation: Adaptation;
  prediction: Prediction;
  recorded: RecordedReward | null;
}

/** What a reward gives the recorded groups. Means; null where nothing was recorded. */
export interface RecordedReward {
  reward: Record<AnswerClass, number | null>;
  advantage: Record<AnswerClass, number | null>;
  /** Mean d(advantage)/d(own length) by the group's composition. */
  advantageSlope: Record<Composition, Record<AnswerClass, number | null>>;
  /** Share of groups whose rewards are all the same number. */
  fracZeroStd: number;
  /** The answers in the order of the records; only in JSON. */
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
  /** Correct answers in the mixed group. */
  correctCount: number;
  lengths: Record<AnswerClass, { mean: number; std: number | null }>;
  recorded: RecordedSummary | null;
  compositions: CompositionRow[];
  rewards: RewardReport[];
}
