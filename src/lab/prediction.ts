/** Which of the paper's two collapse pathways (section 4.2) a reward opens, read off what was measured. */
import { GUARDED_RATIO } from './adaptation';
import { hasSlope } from './pressure';
import { CLASSES } from './rollouts';
import type {
  Adaptation,
  AnswerClass,
  Composition,
  CompositionSweep,
  LabSettings,
  LengthSignal,
  Prediction,
} from './types';

type Sweeps = Record<Composition, CompositionSweep>;

export interface Measured {
  sweeps: Sweeps;
  signals: Record<AnswerClass, LengthSignal>;
  adaptation: Adaptation;
  settings: LabSettings;
}

export const homogeneousOf = (of: AnswerClass): Composition =>
  of === 'correct' ? 'allCorrect' : 'allIncorrect';

const COMPOSITIONS: readonly Composition[] = ['mixed', 'allIncorrect', 'allCorrect'];

/** The reward has a slope at some answer of that class in a group as it is drawn. */
export const isActive = (sweeps: Sweeps, of: AnswerClass): boolean =>
  COMPOSITIONS.some((composition) => (sweeps[composition].points[0]?.[of]?.activeShare ?? 0) > 0);

/** `+0.123`, three digits. */
const signed = (value: number): string => `${value < 0 ? '-' : '+'}${Number(Math.abs(value).toPrecision(3))}`;

const GROWTH = { grows: 'grows as 1/spread', part: 'grows as the spread shrinks', bounded: 'stays bounded' };

function growth(order: number | null): string {
  if (order === null) return 'vanishes as the spread shrinks';
  return order > 0.9 ? GROWTH.grows : order > 0.1 ? GROWTH.part : GROWTH.bounded;
}

/** How that class's length is pushed, as one clause. */
function pushed({ sweeps, settings }: Measured, of: AnswerClass): string {
  const mixed = sweeps.mixed.points[0]?.[of];
  const slope = mixed && hasSlope(mixed.rewardSlope, settings) ? mixed.advantageSlope : 0;
  const direction = slope === 0 ? 'both ways' : slope < 0 ? 'shorter' : 'longer';
  const size = slope === 0 ? '' : ` (${signed(1000 * slope)} advantage per 1,000 tokens in a mixed group)`;
  const alone = growth(sweeps[homogeneousOf(of)].order[of]);
  return `${of} answers are pushed ${direction}${size}, and among ${of} answers alone the push ${alone}`;
}

/** Why the class has no pathway. */
function unpushed({ signals }: Measured, of: AnswerClass): string {
  const { form, range } = signals[of];
  if (form === 'steps') return `${of} answers feel length only in steps`;
  if (form === 'none' || range === null) return `${of} answers feel no length`;
  const [from, to] = range.map((length) => Math.round(length).toLocaleString('en'));
  return `${of} answers feel length only from about ${from} to ${to} tokens, not at these`;
}

function guardClause({ ratio }: Adaptation): string {
  const left = ratio === null ? 0 : Number((100 * ratio).toPrecision(2));
  return `its state cuts the push on correct answers to ${left}% of what it would be when accuracy halves`;
}

export function predict(measured: Measured): Prediction {
  const { signals, adaptation } = measured;
  const active = { correct: signals.correct.active, incorrect: signals.incorrect.active };
  const pathways: Prediction['pathways'] = [];
  if (active.incorrect) pathways.push(1);
  if (active.correct) pathways.push(2);
  const guarded = active.correct && adaptation.ratio !== null && adaptation.ratio <= GUARDED_RATIO;
  // Incorrect answers first: theirs is pathway 1.
  const clauses = CLASSES.toReversed().map((of) =>
    active[of] ? pushed(measured, of) : unpushed(measured, of),
  );
  if (guarded) clauses.push(guardClause(adaptation));
  const sentence = `${clauses.join('; ')}.`;
  return { pathways, guarded, reason: sentence.charAt(0).toUpperCase() + sentence.slice(1) };
}
