/** What of the paper's claims these runs bear out: each claim with its numbers and its test, none without. */
import { fisherP } from '../base/distributions';
import { percent } from '../base/text';
import { wilsonInterval } from '../eval';
import { benchmarkTitle } from './cells';
import { isShown, type Comparison } from './comparisons';
import { acoerOf, collapsedAt, type Method, type RunResult, type SweepResults } from './results';
import { FEWEST_SEEDS, holm } from './statistics';
import { numberText } from './table';

/**
 * - `yes`: shown here, by the test named
 * - `no`: the opposite, or too little of it, is shown here
 * - `open`: these runs do not tell
 */
export type Outcome = 'yes' | 'no' | 'open';

export interface Claim {
  /** What the paper says, and where. */
  claim: string;
  outcome: Outcome;
  /** The numbers and the test, in a sentence. */
  evidence: string;
}

/**
 * The paper's section 6 counts methods with a continuous signal on the length of wrong answers, and those with a signal
 * on correct answers alone or in steps; by the names of our rewards. Others are in neither group.
 */
export const CONTINUOUS = ['beta0.01', 'beta0.05', 'beta0.10', 'grpo-lp', 'grpo-lead', 'recut'];
const CORRECT_ONLY = ['acc', 'beta0', 'acoer', 'acoer-fixed', 'binary'];

const LEVEL = 0.05;
/** "Comparable" accuracy: no loss of as many points as the paper's criterion of collapse takes. */
const COMPARABLE = 0.05;
/** "Over 60%" fewer tokens, in the paper's abstract. */
const PAPER_REDUCTION = 0.6;

export const pText = (p: number): string => (p < 0.001 ? 'p < 0.001' : `p = ${p.toFixed(3)}`);

/** Runs that have ended, by themselves or by their guard. */
const ended = (methods: readonly Method[]): RunResult[] =>
  methods.flatMap(({ runs }) => runs).filter(({ run, data }) => data !== null && run.state === 'done');

interface Share {
  collapsed: number;
  n: number;
  text: string;
  words: string;
}

function share(runs: readonly RunResult[]): Omit<Share, 'words'> {
  const collapsed = runs.filter((run) => collapsedAt(run) !== null).length;
  const { low, high } = wilsonInterval(collapsed, runs.length);
  const text = `${collapsed} of ${runs.length} (95% ${percent(low, 0)} to ${percent(high, 0)})`;
  return { collapsed, n: runs.length, text };
}

/** A claim that one group of runs collapses more often than another. */
interface ShareClaim {
  claim: string;
  groups: readonly (readonly [runs: RunResult[], words: string])[];
}

function shareClaims({ methods }: SweepResults): ShareClaim[] {
  const of = (rewards: readonly string[]) => ended(methods.filter(({ reward }) => rewards.includes(reward)));
  return [
    {
      claim:
        'rewards with a continuous signal on the length of wrong answers collapse, others mostly do not (section 6)',
      groups: [
        [of(CONTINUOUS), 'with such a signal'],
        [of(CORRECT_ONLY), 'without'],
      ],
    },
    {
      claim: 'beta = 0 can collapse where ACOER does not (sections 4 and 5)',
      groups: [
        [of(['beta0']), 'of beta0'],
        [ended(acoerOf(methods)), 'of ACOER'],
      ],
    },
  ];
}

/** Fisher's test of each, corrected by Holm for their number. */
function sharesOf(results: SweepResults): Claim[] {
  const tested = shareClaims(results)
    .filter(({ groups }) => groups.every(([runs]) => runs.length > 0))
    .map(({ claim, groups }) => {
      const [a, b] = groups.map(([runs, words]) => ({ ...share(runs), words })) as [Share, Share];
      return { claim, a, b, p: fisherP(a.collapsed, a.n, b.collapsed, b.n) };
    });
  const adjusted = holm(tested.map(({ p }) => p));
  return tested.map(({ claim, a, b }, i) => {
    const p = adjusted[i]!;
    const more = a.collapsed / a.n > b.collapsed / b.n;
    const evidence = `${a.text} runs ${a.words} collapsed, ${b.text} ${b.words}; Fisher's exact test, ${pText(p)} after Holm`;
    return { claim, outcome: p >= LEVEL ? 'open' : more ? 'yes' : 'no', evidence };
  });
}

const notTested = (claim: string, { estimate }: Comparison, what: string): Claim => ({
  claim,
  outcome: 'open',
  evidence: `${what} over ${estimate.seeds} seeds, not tested: a test needs ${FEWEST_SEEDS} seeds and kept answers`,
});

function accuracyHeld(comparison: Comparison): Claim {
  const { estimate, benchmark, method } = comparison;
  const claim = `ACOER's accuracy on ${benchmarkTitle(benchmark)} is comparable to the base's (section 6)`;
  const value = `${method.name}: ${numberText(estimate.value, 'points')} points`;
  const { interval, p } = estimate;
  if (interval === null || p === null) return notTested(claim, comparison, value);
  const range = `95% ${numberText(interval.low, 'points')} to ${numberText(interval.high, 'points')}`;
  const outcome =
    isShown(comparison) && estimate.value < 0 ? 'no' : interval.low > -COMPARABLE ? 'yes' : 'open';
  return {
    claim,
    outcome,
    evidence: `${value} (${range}), ${pText(comparison.p!)} after Holm; comparable: a loss of ${100 * COMPARABLE} points is outside the interval`,
  };
}

function thinkingCut(comparison: Comparison): Claim {
  const { estimate, benchmark, method } = comparison;
  const claim = `ACOER needs over ${100 * PAPER_REDUCTION}% fewer tokens on ${benchmarkTitle(benchmark)} (abstract)`;
  const value = `${method.name}: ${numberText(estimate.value, 'change')} thinking tokens`;
  const { interval } = estimate;
  if (interval === null || comparison.p === null) return notTested(claim, comparison, value);
  const range = `95% ${numberText(interval.low, 'change')} to ${numberText(interval.high, 'change')}`;
  const outcome =
    isShown(comparison) && interval.high < -PAPER_REDUCTION
      ? 'yes'
      : interval.low > -PAPER_REDUCTION
        ? 'no'
        : 'open';
  const fewer = isShown(comparison)
    ? `different from the base's after Holm, ${pText(comparison.p)}`
    : `no difference shown after Holm, ${pText(comparison.p)}`;
  return { claim, outcome, evidence: `${value} (${range}), ${fewer}` };
}

/** The claims that these runs say something about; those about ACOER on the first benchmark. */
export function claimsOf(results: SweepResults, comparisons: readonly Comparison[]): Claim[] {
  const acoer = acoerOf(results.methods)[0];
  const own = comparisons.filter(
    ({ method, against, benchmark }) =>
      method === acoer && against === 'base' && benchmark === results.benchmarks[0],
  );
  const of = (quantity: Comparison['quantity'], judge: (one: Comparison) => Claim) =>
    own.filter((one) => one.quantity === quantity).map(judge);
  return [...sharesOf(results), ...of('accuracy', accuracyHeld), ...of('thinkingTokens', thinkingCut)];
}

const WORDS: Readonly<Record<Outcome, string>> = {
  yes: 'Reproduced here',
  no: 'Not reproduced here',
  open: 'Not decided by these runs',
};

/** The first paragraph of the report. */
export function claimsText(claims: readonly Claim[]): string {
  if (claims.length === 0) {
    return 'None of the claims of the paper can be judged from these runs: they have neither ACOER nor rewards of both kinds that have ended.';
  }
  return (['yes', 'no', 'open'] as const)
    .flatMap((outcome) => {
      const own = claims.filter((one) => one.outcome === outcome);
      if (own.length === 0) return [];
      return [`${WORDS[outcome]}: ${own.map(({ claim, evidence }) => `${claim}: ${evidence}`).join('. ')}.`];
    })
    .join(' ');
}
