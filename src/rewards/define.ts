/** Builds the built-in rewards: checks parameters once, converts lengths to one unit. */
import { z } from 'zod';
import type { KnownMetrics } from '../base/metric-names';
import type { Rollout } from '../base/types';
import { lengthMeasure, lengthShape, type LengthOf } from './lengths';
import { bindParameters, defaultsOf } from '../config/parameters';
import type { BoundReward, RewardDefinition, RewardScore, RewardTaxonomy, RewardView } from './types';

/** The kind of most parameters: a weight, a rate or a length. */
export const nonNegative = () => z.number().min(0);

/** Every reward with a length has `maxLength`; 0 means the run's. */
const maxLengthShape = { maxLength: z.int().min(0).default(0) };

type LengthShape = ReturnType<typeof lengthShape> & typeof maxLengthShape;

/** What a formula needs besides its own parameters. */
export interface Measures {
  /** l of a completion, in tokens (or characters / 4). */
  readonly l: (rollout: Rollout) => number;
  /** L: the parameter `maxLength`, or the run's longest completion. */
  readonly L: (context: { maxLength: number }) => number;
  /** l counts thinking, so it is meaningless for a completion whose thinking never closed. */
  readonly ofThinking: boolean;
}

/** A reward with state defines `initialState` and `observe`. */
export interface Formula<State> {
  score(rollout: Rollout, view: RewardView<State>): RewardScore;
  initialState?: BoundReward<State>['initialState'];
  observe?: BoundReward<State>['observe'];
  metrics?: (state: State) => KnownMetrics;
  snapshot?: BoundReward<State>['snapshot'];
  ease?: BoundReward<State>['ease'];
}

interface Description<Shape extends z.ZodRawShape> extends Pick<
  RewardDefinition,
  'name' | 'summary' | 'formula' | 'source'
> {
  /** Bounded, continuous and not adaptive unless it says otherwise. */
  taxonomy: Pick<RewardTaxonomy, 'scope' | 'correct' | 'incorrect'> & Partial<RewardTaxonomy>;
  parameters: Shape;
}

interface LengthlessReward<Shape extends z.ZodRawShape, State> extends Description<Shape> {
  reward: (
    parameters: z.output<z.ZodObject<Shape>>,
  ) => Formula<State> & Pick<BoundReward<State>, 'needsThinking'>;
}

interface LengthReward<Shape extends z.ZodRawShape, State> extends Description<Shape> {
  /** Which tokens l counts unless `lengthOf` says otherwise. */
  length: LengthOf;
  reward: (parameters: z.output<z.ZodObject<Shape>>, measures: Measures) => Formula<State>;
}

type Definition = RewardDefinition & { taxonomy: RewardTaxonomy };

/** A reward that measures no length: it has only the parameters listed here. */
export function defineLengthless<Shape extends z.ZodRawShape, State = null>({
  parameters,
  reward,
  ...description
}: LengthlessReward<Shape, State>): Definition {
  const schema = z.strictObject(parameters);
  const {
    scope,
    correct,
    incorrect,
    bounded = true,
    continuous = true,
    adaptive = false,
  } = description.taxonomy;
  return {
    ...description,
    taxonomy: { scope, correct, incorrect, bounded, continuous, adaptive },
    defaults: defaultsOf(schema),
    bind: (given) =>
      ({
        name: description.name,
        initialState: () => null,
        observe: (state: unknown) => state,
        metrics: () => ({}),
        ...reward(bindParameters(`rewardParams.${description.name}`, schema, given)),
        // A formula never waits.
        keepsTime: true,
      }) as BoundReward,
  };
}

/** A reward whose value depends on a length; adds the parameters `lengthOf`, `lengthUnit` and `maxLength`. */
export function defineReward<Shape extends z.ZodRawShape, State = null>({
  length,
  parameters: own,
  reward,
  ...description
}: LengthReward<Shape, State>): Definition {
  return defineLengthless({
    ...description,
    parameters: { ...own, ...lengthShape(length), ...maxLengthShape },
    reward: (given) => {
      const parameters = given as z.output<z.ZodObject<Shape>> & z.output<z.ZodObject<LengthShape>>;
      const ofThinking = parameters.lengthOf !== 'total';
      const formula = reward(parameters, {
        l: lengthMeasure(parameters),
        L: ({ maxLength }) => parameters.maxLength || maxLength,
        ofThinking,
      });
      return { ...formula, needsThinking: ofThinking };
    },
  });
}

/** The sum of what correctness earns and what length adds or costs. */
export function sumOf(accuracy: number, length: number): RewardScore {
  return { value: accuracy + length, parts: { accuracy, length } };
}
