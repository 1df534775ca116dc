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
  settledSignals: Record<AnswerClass, LengthSignal>;
  adaptation: Adaptation;
}

/** The composition in which that class is alone. */
export const homogeneousOf = (of: AnswerClass): Composition =>
  of === 'correct' ? 'allCorrect' : 'allIncorrect';

const percent = (share: number): string => `${Number((100 * share).toPrecision(2))}%`;
const perThousand = (slope: number): string => {
  const size = Number(Math.abs(1000 * slope).toPrecision(3));
  return `${slope < 0 ? '-' : '+'}${size} advantage per 1,000 tokens`;
};

/** How the push among answers of one class alone changes as their lengths meet. */
function growth({ points, order }: CompositionSweep, of: AnswerClass): string {
  if (!((points[0]![of]?.activeShare ?? 0) > 0)) return 'not at all among themselves';
  if (order[of] === null) return 'ending among themselves as lengths meet';
  if (order[of] > 0.9) return 'growing as 1/spread among themselves';
  return `${order[of] > 0.1 ? 'growing slowly' : 'bounded'} among themselves as lengths meet`;
}

function direction({ shorterShare, longerShare }: ClassPressure): string {
  if (longerShare === 0) return 'shorter';
  if (shorterShare === 0) return 'longer';
  return `both ways, ${percent(shorterShare)} of them shorter and ${percent(longerShare)} longer`;
}

/** How that class's length is pushed, as one clause. */
function pushed({ sweeps }: Measured, of: AnswerClass): string {
  const mixed = sweeps.mixed.points[0]![of]!;
  const alone = sweeps[homogeneousOf(of)];
  const inMixed = mixed.activeShare > 0;
  const where = inMixed ? mixed : alone.points[0]![of]!;
  const size = inMixed ? `${perThousand(mixed.advantageSlope)} in a mixed group` : 'not in a mixed group';
  return `${of} answers are pushed ${direction(where)} (${size}, ${growth(alone, of)})`;
}

/** Why the class is not pushed in the state looked at. */
function unpushed({ form, range }: LengthSignal, of: AnswerClass): string {
  if (form === 'steps') return `${of} answers feel length in steps only, which have no slope`;
  if (range === null) return `${of} answers feel no length`;
  const [from, to] = range.map((length) => Math.round(length).toLocaleString('en'));
  return `${of} answers feel no length here (only from about ${from} to ${to} tokens)`;
}

function clause(measured: Measured, of: AnswerClass): string {
  const now = measured.signals[of];
  const later = measured.settledSignals[of];
  if (now.active) return pushed(measured, of);
  if (later.active) return `${of} answers feel no length yet, but do once the state has seen such groups`;
  if (later.form === now.form) return unpushed(now, of);
  return `${unpushed(later, of)}, once the state has seen such groups`;
}

/** @returns the pathways, whether the state guards the second, and why, in one sentence */
export function predict(measured: Measured): Prediction {
  const { signals, settledSignals, adaptation } = measured;
  const open = (of: AnswerClass) => signals[of].active || settledSignals[of].active;
  const pathways: Prediction['pathways'] = [];
  if (open('incorrect')) pathways.push(1);
  if (open('correct')) pathways.push(2);
  const guarded = open('correct') && adaptation.ratio !== null && adaptation.ratio <= GUARDED_RATIO;
  // Incorrect answers first: theirs is pathway 1.
  const clauses = CLASSES.toReversed().map((of) => clause(measured, of));
  if (guarded) {
    clauses.push(
      `when accuracy halves, ${percent(adaptation.ratio!)} of the push on correct answers is left`,
    );
  }
  const sentence = `${clauses.join('; ')}.`;
  return { pathways, guarded, reason: sentence.charAt(0).toUpperCase() + sentence.slice(1) };
}
