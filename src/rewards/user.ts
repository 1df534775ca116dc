/** The user's own rewards: a plain function, or an object with parameters and saved state. */
import { badUsage } from '../base/errors';
import { answerText, type UserProblem } from '../judges';
import type { Group, Prompt, Rollout } from '../base/types';
import type { BoundReward, RewardDefinition, RewardScore, RewardTaxonomy, RewardView } from './types';

/** A rollout as a reward function sees it. */
export interface UserRollout extends Rollout {
  /** Same as `verdict.correct`. */
  correct: boolean;
  /** What follows the thinking; empty if the thinking never ended. */
  answer: string;
  /** Same as `prompt.problem`, with every column of its row. */
  problem: UserProblem;
}

export interface UserGroup {
  prompt: Prompt;
  rollouts: UserRollout[];
}

/** The reward of `rollout`, a member of `group`. */
export type RewardFunction = (
  rollout: UserRollout,
  group: UserGroup,
) => number | RewardScore | Promise<number | RewardScore>;

export type RewardParameters = Readonly<Record<string, number | string | boolean>>;

export interface UserBatchView extends Pick<RewardView<unknown>, 'step' | 'maxLength'> {
  batch: UserGroup[];
  /** `defaults`, overridden by the configuration. */
  params: RewardParameters;
}

export interface UserView<State> extends UserBatchView {
  group: UserGroup;
  /** The state that `observe` returned after the last batch. */
  state: State;
}

/** Needs `score` or `scoreGroup`. Everything except `initialState`, `metrics` and `snapshot` may be async. */
export interface UserReward<State = unknown> {
  summary?: string;
  formula?: string;
  taxonomy?: RewardTaxonomy;
  /** The parameters it takes, with their defaults; none if omitted. */
  defaults?: RewardParameters;
  score?(rollout: UserRollout, view: UserView<State>): number | RewardScore | Promise<number | RewardScore>;
  /** All rewards of a group at once, one per completion, in order. */
  scoreGroup?(
    group: UserGroup,
    view: UserView<State>,
  ): readonly (number | RewardScore)[] | Promise<readonly (number | RewardScore)[]>;
  /** The first state. Plain JSON, like whatever `observe` returns, because it goes into checkpoints. */
  initialState?(context: { maxLength: number }): State;
  /** The state after a generated batch; never called in evaluation. Must not modify `state`. */
  observe?(state: State, view: UserBatchView): State | Promise<State>;
  metrics?(state: State): Record<string, number>;
  snapshot?(state: State): Record<string, number | null>;
}

function userRollout(rollout: Rollout): UserRollout {
  const { verdict, prompt } = rollout;
  const { problem, thinkOpened } = prompt;
  const answer = answerText({ ...rollout, thinkOpened }) ?? '';
  return { ...rollout, correct: verdict.correct, answer, problem: { ...problem, row: problem.row ?? {} } };
}

/** One view per group: `rollout` is a member of `group.rollouts`, and n samples cost n copies, not n^2. */
function viewer(): (group: Group) => UserGroup {
  const views = new WeakMap<Group, UserGroup>();
  return (group) => {
    let view = views.get(group);
    if (view === undefined) {
      view = { prompt: group.prompt, rollouts: group.rollouts.map(userRollout) };
      views.set(group, view);
    }
    return view;
  };
}

const own = (seen: UserGroup, group: Group, rollout: Rollout): UserRollout =>
  seen.rollouts[group.rollouts.indexOf(rollout)] ?? userRollout(rollout);

const refused = (name: string, fault: string) => badUsage(`Reward "${name}" ${fault}`);

function withDefaults(name: string, defaults: RewardParameters, given: Readonly<Record<string, unknown>>) {
  for (const [key, value] of Object.entries(given)) {
    if (!Object.hasOwn(defaults, key)) {
      const known = Object.keys(defaults).join(', ') || 'none';
      throw refused(name, `takes no parameter ${key} (it takes: ${known})`);
    }
    const wanted = typeof defaults[key];
    if (typeof value !== wanted) {
      const found = JSON.stringify(value);
      throw badUsage(`Parameter ${key} of reward "${name}" must be a ${wanted}, not ${found}`);
    }
  }
  return { ...defaults, ...given } as RewardParameters;
}

function isPlainJson(value: unknown): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (Array.isArray(value)) return value.every(isPlainJson);
  if (
    typeof value !== 'object' ||
    ![Object.prototype, null].includes(Object.getPrototypeOf(value) as object)
  ) {
    return false;
  }
  return Object.values(value).every(isPlainJson);
}

function checkedState<State>(state: State): State {
  if (isPlainJson(state)) return state;
  throw new Error('its state must be plain JSON (no undefined, NaN, Map, class instance), for checkpoints');
}

/** Calls `scoreGroup` once per group and state, and gives each completion its own number. */
function groupScorer<State>(scoreGroup: NonNullable<UserReward<State>['scoreGroup']>) {
  type Values = readonly (number | RewardScore)[];
  const made = new WeakMap<UserGroup, { state: State; values: Promise<Values> }>();
  return async (rollout: UserRollout, view: UserView<State>): Promise<number | RewardScore> => {
    let entry = made.get(view.group);
    if (entry === undefined || entry.state !== view.state) {
      entry = { state: view.state, values: Promise.resolve(scoreGroup(view.group, view)) };
      made.set(view.group, entry);
    }
    const values = await entry.values;
    const [count, index] = [view.group.rollouts.length, view.group.rollouts.indexOf(rollout)];
    const length = Array.isArray(values) ? values.length : undefined;
    // With too few numbers, only the completions without one fail. With any other mismatch nobody can tell
    // which number belongs to which completion.
    if (length !== count && !(length !== undefined && length < count && index < length)) {
      const found =
        length === undefined ? 'no list of rewards' : `${length} reward${length === 1 ? '' : 's'}`;
      throw new Error(`it returned ${found} for the ${count} completions of its group`);
    }
    return values[index]!;
  };
}

function bindObject<State>(
  name: string,
  reward: UserReward<State>,
  params: RewardParameters,
): BoundReward<State> {
  const seenAs = viewer();
  const scoreUser = reward.score?.bind(reward) ?? groupScorer<State>(reward.scoreGroup!.bind(reward));
  return {
    name,
    initialState: (context) => checkedState(reward.initialState?.(context) ?? (null as State)),
    async observe(state, { step, maxLength, batch }) {
      if (reward.observe === undefined) return state;
      return checkedState(await reward.observe(state, { step, maxLength, batch: batch.map(seenAs), params }));
    },
    async score(rollout, view: RewardView<State>) {
      const { step, maxLength, state } = view;
      const group = seenAs(view.group);
      const batch = view.batch.map(seenAs);
      const seen = { step, maxLength, state, params, group, batch };
      const score = await scoreUser(own(group, view.group, rollout), seen);
      return typeof score === 'object' && score !== null ? score : { value: score };
    },
    metrics: (state) => reward.metrics?.(state) ?? {},
    ...(reward.snapshot && { snapshot: reward.snapshot.bind(reward) }),
  };
}

function fromObject(name: string, reward: UserReward): RewardDefinition {
  if (typeof reward.score !== 'function' && typeof reward.scoreGroup !== 'function') {
    throw refused(name, 'needs a function named score or scoreGroup.');
  }
  const { defaults = {} } = reward;
  return {
    name,
    summary: reward.summary ?? 'Registered by the program that runs.',
    formula: reward.formula ?? 'a function of (rollout, view)',
    source: 'registerReward',
    defaults,
    ...(reward.taxonomy && { taxonomy: reward.taxonomy }),
    bind: (parameters) => bindObject(name, reward, withDefaults(name, defaults, parameters)),
  };
}

function fromFunction(name: string, reward: RewardFunction): RewardDefinition {
  const formula = 'a function of (rollout, group)';
  const score = async (rollout: UserRollout, { group }: UserView<unknown>) => reward(rollout, group);
  return {
    ...fromObject(name, { formula, score }),
    bind(parameters) {
      const [unknown] = Object.keys(parameters);
      if (unknown !== undefined) throw refused(name, `is a function and takes no parameter ${unknown}`);
      return bindObject(name, { score }, {});
    },
  };
}

/** The definition to register under `name`, from a function, a user's object or a whole definition. */
export function definitionOf(
  name: string,
  reward: RewardFunction | UserReward | RewardDefinition,
): RewardDefinition {
  if (typeof reward === 'function') return fromFunction(name, reward);
  if (typeof reward !== 'object' || reward === null) {
    throw refused(name, `must be a function or an object, not ${typeof reward}.`);
  }
  return 'bind' in reward ? { ...reward, name } : fromObject(name, reward);
}
