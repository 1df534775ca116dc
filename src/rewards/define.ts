/**
 * Builds the built-in rewards: checks parameters once, converts lengths to one unit, adds state only on
 * request.
 */
import { z } from 'zod';
import type { KnownMetrics } from '../metric-names';
import type { Rollout } from '../types';
import { lengthMeasure, lengthShape, type LengthOf } from './lengths';
import { bindParameters, defaultsOf } from '../config/parameters';
import type { BoundReward, RewardDefinition, RewardScore, RewardTaxonomy, RewardView } from './types';

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

interface Specification<Shape extends z.ZodRawShape, State> {
  name: string;
  summary: string;
  formula: string;
  source: string;
  taxonomy: RewardTaxonomy;
  /** Which tokens l counts unless `lengthOf` says otherwise. */
  length: LengthOf;
  parameters: Shape;
  reward: (parameters: z.output<z.ZodObject<Shape>>, measures: Measures) => Formula<State>;
}

/** A reward whose value depends on a length; adds the parameters `lengthOf`, `lengthUnit` and `maxLength`. */
export function defineReward<Shape extends z.ZodRawShape, State = null>(
  specification: Specification<Shape, State>,
): RewardDefinition & { taxonomy: RewardTaxonomy } {
  const { length, parameters: own, reward, ...description } = specification;
  const schema = z.strictObject({ ...own, ...lengthShape(length), ...maxLengthShape });
  return {
    ...description,
    defaults: defaultsOf(schema),
    bind(given) {
      const parameters = bindParameters(`rewardParams.${description.name}`, schema, given) as z.output<
        z.ZodObject<Shape>
      > &
        z.output<z.ZodObject<LengthShape>>;
      const ofThinking = parameters.lengthOf !== 'total';
      const formula = reward(parameters, {
        l: lengthMeasure(parameters),
        L: ({ maxLength }) => parameters.maxLength || maxLength,
        ofThinking,
      });
      return {
        name: description.name,
        initialState: () => null,
        observe: (state: unknown) => state,
        metrics: () => ({}),
        ...formula,
        needsThinking: ofThinking,
        // A formula never waits.
        keepsTime: true,
      } as BoundReward;
    },
  };
}

/** The sum of what correctness earns and what length adds or costs. */
export function sumOf(accuracy: number, length: number): RewardScore {
  return { value: accuracy + length, parts: { accuracy, length } };
}
