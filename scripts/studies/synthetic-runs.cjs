/**
 * Synthetic runs for the collapse monitor: each group is a new problem whose solve rate is drawn from a beta
 * distribution, so the course of accuracy is known exactly. The lines have the names and meanings of
 * metrics.jsonl.
 */

/** Mulberry32: uniform on [0, 1). */
function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const normal = (random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

/** Marsaglia and Tsang (2000). */
function gamma(random, shape) {
  if (shape < 1) return gamma(random, shape + 1) * (1 - random()) ** (1 / shape);
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (;;) {
    const x = normal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random()) < x * x * 0.5 + d - d * v + d * Math.log(v)) return d * v;
  }
}

function beta(random, a, b) {
  const x = gamma(random, a);
  return x / (x + gamma(random, b));
}

/** Solve rates whose mean drops by `points`, in ways that leave different traces. */
const FALLS = {
  /** Other problems become solvable: a beta distribution with a lower mean, as wide as before. */
  spread: (random, [a, b], points) => {
    const shift = points * (a + b);
    return beta(random, Math.max(0.01, a - shift), b + Math.min(shift, a - 0.01));
  },
  /** Every problem is solved less often, by the same factor. */
  factor: (random, [a, b], points) => beta(random, a, b) * (1 - (points * (a + b)) / a),
  /** Some problems are no longer solved at all. */
  lost: (random, [a, b], points) => {
    const rate = beta(random, a, b);
    return random() < (points * (a + b)) / a ? 0 : rate;
  },
};

/**
 * The metrics of one batch.
 *
 * @param random uniform numbers
 * @param rate draws a solve rate
 */
function batch(random, { prompts, completions }, rate) {
  let [right, allRight, allWrong, spread] = [0, 0, 0, 0];
  for (let i = 0; i < prompts; i++) {
    const p = rate();
    let correct = 0;
    for (let j = 0; j < completions; j++) if (random() < p) correct++;
    right += correct;
    if (correct === 0) allWrong++;
    if (correct === completions) allRight++;
    const share = correct / completions;
    spread += Math.sqrt((share * (1 - share) * completions) / (completions - 1));
  }
  return {
    'accuracy/mean': right / (prompts * completions),
    'accuracy/group_std': spread / prompts,
    'accuracy/groups_all_wrong': allWrong / prompts,
    'accuracy/groups_all_correct': allRight / prompts,
  };
}

/**
 * The lines of a run.
 *
 * @param options.solve [a, b] of the beta distribution of solve rates
 * @param options.shape { prompts, completions } of a batch
 * @param options.thinking [fraction of the base at the end, groups until it is reached]
 * @param options.fall { kind, points, after, ramp }, the last two in groups; null: accuracy never changes
 */
function* syntheticRun({ seed, solve, shape, steps, thinking: [share, reached], fall = null }) {
  const random = uniform(seed);
  for (let step = 1; step <= steps; step++) {
    const groups = (step - 1) * shape.prompts;
    const done =
      fall === null || groups < fall.after
        ? 0
        : fall.ramp === 0
          ? 1
          : Math.min(1, (groups - fall.after) / fall.ramp);
    const rate = () =>
      done === 0 ? beta(random, ...solve) : FALLS[fall.kind](random, solve, done * fall.points);
    const accuracy = batch(random, shape, rate);
    const length = 1000 * (1 - (1 - share) * Math.min(1, groups / reached));
    const noise = 0.3 / Math.sqrt(shape.prompts);
    const thinking = length * Math.exp(noise * normal(random) - noise ** 2 / 2);
    yield {
      step,
      ...accuracy,
      'thinking/mean': thinking,
      'thinking/correct_mean': thinking,
      'completions/mean_length': thinking + 300 * (1 + (0.2 * normal(random)) / Math.sqrt(shape.prompts)),
      'completions/clipped_ratio': 0,
      'advantages/brevity': Math.min(1, Math.max(0, 0.5 + (0.2 * normal(random)) / Math.sqrt(shape.prompts))),
      frac_reward_zero_std: accuracy['accuracy/groups_all_wrong'],
      entropy: 0.3,
    };
  }
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/** Spread of the logits of the solve rates, and what it does to the mean (MacKay's approximation). */
const LOGIT_SPREAD = 1.6;
const FLATTENED = Math.sqrt(1 + (Math.PI / 8) * LOGIT_SPREAD ** 2);

/**
 * The lines of a run whose accuracy and length follow given courses, with logit-normal solve rates. Wrong
 * answers think longer than right ones, so that a fall of accuracy itself raises the mean length.
 *
 * @param options.accuracy mean accuracy at a step, from 0
 * @param options.thinking thinking tokens of right answers at a step
 * @param options.wrongLonger thinking of wrong answers as a multiple of that
 */
function* courseRun({ seed, shape, steps, accuracy, thinking, wrongLonger = 1.3 }) {
  const random = uniform(seed);
  for (let t = 0; t < steps; t++) {
    const middle = FLATTENED * Math.log(accuracy(t) / (1 - accuracy(t)));
    const rate = () => 1 / (1 + Math.exp(-middle - LOGIT_SPREAD * normal(random)));
    const shares = batch(random, shape, rate);
    const right = Math.round(shares['accuracy/mean'] * shape.prompts * shape.completions);
    const lengths = (count, factor) =>
      Array.from({ length: count }, () => thinking(t) * factor * Math.exp(0.3 * normal(random) - 0.045));
    const correct = lengths(right, 1);
    const wrong = lengths(shape.prompts * shape.completions - right, wrongLonger);
    yield {
      step: t + 1,
      ...shares,
      'thinking/mean': mean([...correct, ...wrong]),
      ...(correct.length > 0 && { 'thinking/correct_mean': mean(correct) }),
      ...(wrong.length > 0 && { 'thinking/wrong_mean': mean(wrong) }),
      'completions/answer_length': 60,
      'advantages/brevity': 0.5,
      frac_reward_zero_std: 0,
      entropy: 0.4,
    };
  }
}

const SOLVE_RATES = {
  'Beta(.9,.3)': [0.9, 0.3],
  'Beta(2,.7)': [2, 0.7],
  'Beta(6,2)': [6, 2],
  'Beta(.5,.5)': [0.5, 0.5],
};
const SHAPES = [
  { prompts: 1, completions: 16 },
  { prompts: 2, completions: 16 },
  { prompts: 8, completions: 16 },
  { prompts: 8, completions: 4 },
];

module.exports = { beta, courseRun, FALLS, SHAPES, SOLVE_RATES, syntheticRun, uniform };
