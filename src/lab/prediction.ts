/** Which of the paper's two collapse pathways (section 4.2) a reward opens, read off what was measured. */
import { GUARDED_RATIO } from './adaptation';
import { CLASSES } from './rollouts';
import type {
  Adaptation,
  AnswerClass,
  ClassPressure,
  Composition,
  CompositionSweep,
  LengthSignal,
  Prediction,
} from './types';

type Sweeps = Record<Composition, CompositionSweep>;

export interface Measured {
  sweeps: Sweeps;
  signals: Record<AnswerClass, LengthSignal>;
  adaptation: Adaptation;
}

/** The composition in which that class is alone. */
export const homogeneousOf = (of: AnswerClass): Composition =>
  of === 'correct' ? 'allCorrect' : 'allIncorrect';

const COMPOSITIONS: readonly Composition[] = ['mixed', 'allIncorrect', 'allCorrect'];

/** The reward has a slope at some answer of that class in a group as it is drawn. */
export const isActive = (sweeps: Sweeps, of: AnswerClass): boolean =>
  COMPOSITIONS.some((composition) => (sweeps[composition].points[0]?.[of]?.activeShare ?? 0) > 0);

const percent = (share: number): string => `${Number((100 * share).toPrecision(2))}%`;
const perThousand = (slope: number): string => {
  const size = Number(Math.abs(1000 * slope).toPrecision(3));
  return `${slope < 0 ? '-' : '+'}${size} advantage per 1,000 tokens`;
};

function growth(order: number | null): string {
  if (order === null) return 'vanishes as lengths meet';
  if (order > 0.9) return 'grows as 1/spread';
  return order > 0.1 ? 'grows as the spread shrinks' : 'stays bounded';
}

function direction({ shorterShare, longerShare }: ClassPressure): string {
  if (longerShare === 0) return 'shorter';
  if (shorterShare === 0) return 'longer';
  return `both ways (${percent(shorterShare)} of them shorter, ${percent(longerShare)} longer)`;
}

/** How that class's length is pushed, as one clause. */
function pushed({ sweeps }: Measured, of: AnswerClass): string {
  const mixed = sweeps.mixed.points[0]![of]!;
  const alone = sweeps[homogeneousOf(of)];
  const where = mixed.activeShare > 0 ? mixed : alone.points[0]![of]!;
  const inMixed =
    mixed.activeShare > 0
      ? `by ${perThousand(mixed.advantageSlope)} in a mixed group`
      : 'not in a mixed group';
  return `${of} answers are pushed ${direction(where)}, ${inMixed}, and the push among ${of} answers alone ${growth(alone.order[of])}`;
}

/** Why the class has no pathway. */
function unpushed({ signals }: Measured, of: AnswerClass): string {
  const { form, range } = signals[of];
  if (form === 'steps') return `${of} answers feel length in steps only, which have no slope`;
  if (range === null) return `${of} answers feel no length`;
  const [from, to] = range.map((length) => Math.round(length).toLocaleString('en'));
  return `${of} answers feel no length here (only from about ${from} to ${to} tokens)`;
}

/** @returns the pathways, whether the state guards the second, and why, in one sentence */
export function predict(measured: Measured): Prediction {
  const { signals, adaptation } = measured;
  const pathways: Prediction['pathways'] = [];
  if (signals.incorrect.active) pathways.push(1);
  if (signals.correct.active) pathways.push(2);
  const guarded = signals.correct.active && adaptation.ratio !== null && adaptation.ratio <= GUARDED_RATIO;
  // Incorrect answers first: theirs is pathway 1.
  const clauses = CLASSES.toReversed().map((of) =>
    signals[of].active ? pushed(measured, of) : unpushed(measured, of),
  );
  if (guarded) {
    clauses.push(
      `when accuracy halves it leaves ${percent(adaptation.ratio!)} of the push on correct answers`,
    );
  }
  const sentence = `${clauses.join('; ')}.`;
  return { pathways, guarded, reason: sentence.charAt(0).toUpperCase() + sentence.slice(1) };
}
