import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  type AcoerParameters,
  type AcoerState,
  efficiency,
  initialAcoerState,
  observeBatch,
} from '../../src/rewards/acoer/controller';
import { resolveReward } from '../../src/rewards';
import type { Group } from '../../src/base/types';
import { uniformStream } from '../../src/base/rng';
import { group, rollout } from './rollouts';

interface Trajectory {
  settings: Record<string, number>;
  steps: {
    /** [correct, thinking tokens], or [correct, thinking characters, closed] in the run `authors-code` */
    rollouts: [number, number, number?][];
    rewards: number[];
    alpha: number;
    emaAccuracy: number;
    emaCorrectLength: number;
    budget: number;
  }[];
}

const fixture = JSON.parse(
  readFileSync(resolve(__dirname, '../fixtures/rewards/acoer-trajectory.json'), 'utf8'),
) as { runs: Record<string, Trajectory> };

const DEFAULTS: AcoerParameters = {
  alphaInit: 0.02,
  alphaMin: 0.01,
  alphaMax: 0.5,
  alphaUp: 1.02,
  alphaDown: 0.95,
  emaSpan: 50,
  checkWindow: 100,
  accDropThreshold: 0.02,
  budgetRatio: 0.85,
  minBudget: 512,
  logScale: 5,
  initialBudget: 0,
  warmupSteps: 200,
};

const reward = (params: Record<string, unknown> = {}) => resolveReward('acoer', params);

function scoreWith(state: AcoerState, correct: boolean, tokens: number, closed = true) {
  const own = rollout(correct, tokens, closed);
  const view = { step: 0, maxLength: 8192, group: group(own), batch: [group(own)], state };
  return reward().score(own, view);
}

/** `count` batches of the given accuracy and length from step `from` on. */
function feed(
  parameters: AcoerParameters,
  state: AcoerState,
  from: number,
  accuracies: number[],
  length = 1000,
) {
  return accuracies.reduce(
    (current, accuracy, i) =>
      observeBatch(parameters, current, { step: from + i, accuracy, correctLength: length }),
    state,
  );
}

describe('the bonus', () => {
  const state: AcoerState = { ...initialAcoerState(DEFAULTS, 8192), alpha: 0.1, budget: 1000 };

  test('is 1 at length 0, 0 at the budget and clipped beyond it', () => {
    expect(scoreWith(state, true, 0)).toEqual({ value: 1.1, parts: { accuracy: 1, bonus: 0.1 } });
    expect(scoreWith(state, true, 1000)).toMatchObject({ value: 1 });
    expect(scoreWith(state, true, 5000)).toMatchObject({ value: 1 });
  });

  test('follows log(1 + k(1 - l/B)) / log(1 + k)', () => {
    expect(efficiency(500, 1000, 5)).toBeCloseTo(Math.log(3.5) / Math.log(6), 15);
  });

  test('wrong answers earn 0 whatever their length', () => {
    for (const tokens of [0, 10, 5000]) expect(scoreWith(state, false, tokens)).toMatchObject({ value: 0 });
  });

  test('a correct answer with open thinking earns 1 and no bonus', () => {
    expect(scoreWith(state, true, 10, false)).toMatchObject({ value: 1, parts: { bonus: 0 } });
  });
});

describe('the controller, rule by rule', () => {
  test('defaults are the paper’s', () => {
    expect(reward().initialState({ maxLength: 8192 })).toEqual({
      alpha: 0.02,
      budget: 8192,
      emaAccuracy: null,
      emaCorrectLength: null,
      accuracyHistory: [],
    });
  });

  test('averages weigh the newest value by 2 / (span + 1); the first value is taken as it is', () => {
    const start = initialAcoerState(DEFAULTS, 8192);
    const first = observeBatch(DEFAULTS, start, { step: 0, accuracy: 0.5, correctLength: 100 });
    expect(first).toMatchObject({ emaAccuracy: 0.5, emaCorrectLength: 100 });
    const second = observeBatch(DEFAULTS, first, { step: 1, accuracy: 1, correctLength: 200 });
    expect(second.emaAccuracy).toBeCloseTo((2 / 51) * 1 + (49 / 51) * 0.5, 15);
    expect(second.emaCorrectLength).toBeCloseTo((2 / 51) * 200 + (49 / 51) * 100, 12);
  });

  test('a batch with no correct answer leaves the length average alone and counts as accuracy 0', () => {
    const start = feed(DEFAULTS, initialAcoerState(DEFAULTS, 8192), 0, [1]);
    const batch: Group[] = [group(rollout(false, 50), rollout(false, 70))];
    const after = reward().observe(start, { step: 1, maxLength: 8192, batch }) as AcoerState;
    expect(after.emaCorrectLength).toBe(1000);
    expect(after.emaAccuracy).toBeCloseTo(49 / 51, 15);
  });

  test('a correct answer with open thinking counts for accuracy but not for length', () => {
    const batch: Group[] = [group(rollout(true, 50), rollout(true, 900, false))];
    const start = reward().initialState({ maxLength: 8192 });
    const after = reward().observe(start, { step: 0, maxLength: 8192, batch });
    expect(after).toMatchObject({ emaAccuracy: 1, emaCorrectLength: 50 });
  });

  test('the whole gathered batch is one observation', () => {
    const batch = [group(rollout(true, 10), rollout(false, 90)), group(rollout(true, 30), rollout(true, 50))];
    const after = reward().observe(reward().initialState({ maxLength: 8192 }), {
      step: 0,
      maxLength: 8192,
      batch,
    });
    expect(after).toMatchObject({ emaAccuracy: 0.75, emaCorrectLength: 30 });
  });

  test('with defaults alpha and the budget first move at step 200', () => {
    const before = feed(DEFAULTS, initialAcoerState(DEFAULTS, 8192), 0, Array(200).fill(0.8));
    expect(before).toMatchObject({ alpha: 0.02, budget: 8192 });
    const after = observeBatch(DEFAULTS, before, { step: 200, accuracy: 0.8, correctLength: 1000 });
    expect(after.alpha).toBeCloseTo(0.02 * 1.02, 15);
    expect(after.budget).toBeCloseTo(850, 9);
  });

  test('the window is a guard too: without checkWindow entries nothing moves, even late in a run', () => {
    const state = feed(DEFAULTS, initialAcoerState(DEFAULTS, 8192), 5000, Array(99).fill(0.8));
    expect(state).toMatchObject({ alpha: 0.02, budget: 8192 });
    expect(feed(DEFAULTS, state, 5099, [0.8]).alpha).toBeGreaterThan(0.02);
  });

  test('compares with the checkWindow-th newest average, counting the current one', () => {
    const parameters = { ...DEFAULTS, emaSpan: 1, checkWindow: 3, warmupSteps: 0, accDropThreshold: 0.1 };
    const start = initialAcoerState(parameters, 8192);
    // Span 1: the average is the value. Window [0.9, 0.5, 0.5]: fell; then [0.5, 0.5, 0.5]: held.
    const fell = feed(parameters, start, 0, [0.9, 0.5, 0.5]);
    expect(fell.alpha).toBeCloseTo(0.02 * 0.95, 15);
    const held = feed(parameters, fell, 3, [0.5]);
    expect(held.alpha).toBeCloseTo(0.02 * 0.95 * 1.02, 15);
  });

  test('a drop of exactly the threshold still counts as holding', () => {
    const parameters = { ...DEFAULTS, emaSpan: 1, checkWindow: 2, warmupSteps: 0, accDropThreshold: 0.25 };
    const start = initialAcoerState(parameters, 8192);
    expect(feed(parameters, start, 0, [0.75, 0.5]).alpha).toBeGreaterThan(0.02);
    expect(feed(parameters, start, 0, [0.75, 0.4375]).alpha).toBeLessThan(0.02);
  });

  test('past both guards the budget follows whichever way alpha moved, never below minBudget', () => {
    const parameters = { ...DEFAULTS, emaSpan: 1, checkWindow: 2, warmupSteps: 0 };
    const start = initialAcoerState(parameters, 8192);
    expect(feed(parameters, start, 0, [0.9, 0.1], 2000)).toMatchObject({ budget: 1700 });
    expect(feed(parameters, start, 0, [0.9, 0.9], 100)).toMatchObject({ budget: 512 });
  });

  test('initialBudget replaces L until alpha first moves', () => {
    expect(reward({ initialBudget: 4096 }).initialState({ maxLength: 8192 })).toMatchObject({ budget: 4096 });
  });

  test('rewards use the state before the batch; scoring and observing modify no state', () => {
    const state = Object.freeze(initialAcoerState(DEFAULTS, 8192));
    Object.freeze(state.accuracyHistory);
    void scoreWith(state, true, 10);
    const next = reward().observe(state, { step: 0, maxLength: 8192, batch: [group(rollout(true, 10))] });
    expect(next).not.toBe(state);
    expect(state).toEqual(initialAcoerState(DEFAULTS, 8192));
    expect(JSON.parse(JSON.stringify(next))).toEqual(next);
  });
});

test('random batches keep alpha within its bounds, the budget at or above its minimum, and everything finite', () => {
  const parameters = {
    ...DEFAULTS,
    checkWindow: 7,
    warmupSteps: 5,
    emaSpan: 3,
    alphaUp: 1.3,
    alphaDown: 0.6,
  };
  for (let seed = 0; seed < 5; seed++) {
    const next = uniformStream(BigInt(seed));
    let state = initialAcoerState(parameters, 8192);
    for (let step = 0; step < 300; step++) {
      const accuracy = next() < 0.1 ? 0 : next();
      const correctLength = accuracy === 0 ? null : Math.floor(8192 * next());
      state = observeBatch(parameters, state, { step, accuracy, correctLength });
      expect(state.alpha).toBeGreaterThanOrEqual(parameters.alphaMin);
      expect(state.alpha).toBeLessThanOrEqual(parameters.alphaMax);
      expect(state.budget).toBeGreaterThanOrEqual(parameters.minBudget);
      expect(state.accuracyHistory.length).toBeLessThanOrEqual(parameters.checkWindow);
      expect(Number.isFinite(state.emaAccuracy)).toBe(true);
      const bonus = efficiency(Math.floor(9000 * next()), state.budget, parameters.logScale);
      expect(bonus).toBeGreaterThanOrEqual(0);
      expect(bonus).toBeLessThanOrEqual(1);
    }
  }
});

const AUTHORS_NAMES: Record<string, string> = {
  alpha_max: 'alphaMax',
  alpha_up: 'alphaUp',
  alpha_down: 'alphaDown',
  ema_span: 'emaSpan',
  check_window: 'checkWindow',
  min_budget: 'minBudget',
  warmup_steps: 'warmupSteps',
  max_thinking_tokens: 'initialBudget',
};

/** The settings that reproduce the authors' code where ours differs by default. */
const AUTHORS_CODE = { lengthUnit: 'chars', openThinking: 'zero-length', noCorrectLength: 'zero' };

function authorsRollout([correct, length, closed]: [number, number, number?]) {
  if (closed === undefined) return rollout(correct === 1, length);
  const text = `<think>${'\u{1F600}'.repeat(length)}${closed === 1 ? '</think>' : ''}\\boxed{}`;
  return { ...rollout(correct === 1, 0, closed === 1), text };
}

const near = (value: number, expected: number) =>
  Math.abs(value - expected) <= 1e-9 * Math.max(1, Math.abs(expected));

test.each(Object.entries(fixture.runs))(
  '450 steps of the authors’ released reward: %s',
  async (name, run) => {
    const named = Object.entries(run.settings).map(([key, value]) => [AUTHORS_NAMES[key]!, value]);
    const exact = name === 'authors-code' ? AUTHORS_CODE : {};
    const bound = reward({ initialBudget: 4096, ...Object.fromEntries(named), ...exact });
    let state = bound.initialState({ maxLength: 8192 }) as AcoerState;
    expect(run.steps).toHaveLength(450);
    for (const [step, expected] of run.steps.entries()) {
      const own = group(...expected.rollouts.map(authorsRollout));
      const view = { step, maxLength: 8192, group: own, batch: [own], state };
      const values = await Promise.all(own.rollouts.map(async (r) => (await bound.score(r, view)).value));
      values.forEach((value, i) => expect(near(value, expected.rewards[i]!)).toBe(true));
      state = bound.observe(state, { step, maxLength: 8192, batch: [own] }) as AcoerState;
      for (const key of ['alpha', 'budget', 'emaAccuracy', 'emaCorrectLength'] as const) {
        expect(near(state[key]!, expected[key])).toBe(true);
      }
    }
  },
);
