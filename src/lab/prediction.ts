/** Which of the paper's two collapse pathways (section 4.2) a reward opens, derived from the measurements. */
import { grouped } from '../base/text';
import { GUARDED_RATIO } from './adaptation';
import {
  CLASSES,
  type AnswerClass,
  type ClassPressure,
  type Composition,
  type CompositionSweep,
  type LengthSignal,
  type Prediction,
  type RewardReport,
} from './types';

type Measured = Pick<RewardReport, 'sweeps' | 'signals' | 'settledSignals' | 'adaptation'>;

/** The composition with only that class. */
export const homogeneousOf = (kind: AnswerClass): Composition =>
  kind === 'correct' ? 'allCorrect' : 'allIncorrect';

const percent = (share: number): string => `${Number((100 * share).toPrecision(2))}%`;
const perThousand = (slope: number): string => {
  const size = Number(Math.abs(1000 * slope).toPrecision(3));
  return `${slope < 0 ? '-' : '+'}${size} advantage per 1,000 tokens`;
};

/** How the pressure among answers of one class changes as their lengths converge. */
function growth({ points, order }: CompositionSweep, kind: AnswerClass): string {
  if (!((points[0]![kind]?.activeShare ?? 0) > 0)) return 'not at all among themselves';
  if (!((points[0]![kind]?.count ?? 0) > 1 && points[0]!.lengthStd[kind]! > 0)) return 'of equal length here';
  if (order[kind] === null) return 'vanishing among themselves as lengths converge';
  if (order[kind] > 0.9) return 'growing as 1/spread among themselves';
  return `${order[kind] > 0.1 ? 'growing slowly' : 'bounded'} among themselves as lengths converge`;
}

function direction({ shorterShare, longerShare }: ClassPressure): string {
  if (longerShare === 0) return 'shorter';
  if (shorterShare === 0) return 'longer';
  return `both ways, ${percent(shorterShare)} of them shorter and ${percent(longerShare)} longer`;
}

/** How the length of that class is pushed, as one clause. */
function pushed({ sweeps }: Measured, kind: AnswerClass): string {
  const mixed = sweeps.mixed.points[0]![kind]!;
  const alone = sweeps[homogeneousOf(kind)];
  const inMixed = mixed.activeShare > 0;
  const where = inMixed ? mixed : alone.points[0]![kind]!;
  const size = inMixed ? `${perThousand(mixed.advantageSlope)} in a mixed group` : 'not in a mixed group';
  return `${kind} answers are pushed ${direction(where)} (${size}, ${growth(alone, kind)})`;
}

/** Why the class is not pushed in the given state. */
function unpushed({ form, range }: LengthSignal, kind: AnswerClass): string {
  if (form === 'steps') return `${kind} answers are affected by length in steps only, which have no slope`;
  if (range === null) return `${kind} answers are not affected by length`;
  const [from, to] = range.map((length) => grouped(Math.round(length)));
  return `${kind} answers are not affected by length here (only from about ${from} to ${to} tokens)`;
}

function clause(measured: Measured, kind: AnswerClass): string {
  const now = measured.signals[kind];
  const later = measured.settledSignals[kind];
  if (now.active) return pushed(measured, kind);
  if (later.active)
    return `${kind} answers are not affected by length yet, but are once the state has seen such groups`;
  if (later.form === now.form) return unpushed(now, kind);
  return `${unpushed(later, kind)}, once the state has seen such groups`;
}

/** The pathways as in `1+2`, with a mark if the state guards them. */
export const pathwayNames = ({ pathways, guarded }: Prediction, mark: string): string =>
  pathways.length === 0 ? 'none' : `${pathways.join('+')}${guarded ? mark : ''}`;

/** @returns the pathways, whether the state guards the second, and the reason in one sentence */
export function predict(measured: Measured): Prediction {
  const { signals, settledSignals, adaptation } = measured;
  const open = (kind: AnswerClass) => signals[kind].active || settledSignals[kind].active;
  const pathways: Prediction['pathways'] = [];
  if (open('incorrect')) pathways.push(1);
  if (open('correct')) pathways.push(2);
  const guarded = open('correct') && adaptation.ratio !== null && adaptation.ratio <= GUARDED_RATIO;
  // Incorrect answers come first, because they are pathway 1.
  const clauses = CLASSES.toReversed().map((kind) => clause(measured, kind));
  if (guarded) {
    clauses.push(
      `when accuracy halves, ${percent(adaptation.ratio!)} of the pressure on correct answers is left`,
    );
  }
  const sentence = `${clauses.join('; ')}.`;
  return { pathways, guarded, reason: sentence.charAt(0).toUpperCase() + sentence.slice(1) };
}
