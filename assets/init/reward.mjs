// What a completion earns; training makes completions that earn more likely. Here: 1 for a right answer, and up to 0.5
// more the fewer tokens of thinking it takes for each term of its sum.
//
// `rollout` is one of `group.rollouts`, the completions of one prompt. `correct` is the judge's verdict, `problem.row`
// the row with all of its columns. Return a number, or an object with a `value`, `columns` for the tables that
// `acoer show` prints, and `metrics`, whose means are in metrics.jsonl. docs/rewards.md of acoer has the rest.

/** Tokens of thinking for a term that earn nothing more. */
const PER_TERM = 40;

/** @type {import('acoer').RewardFunction} */
export default function brief(rollout) {
  const perTerm = rollout.thinkingTokens / Number(rollout.problem.row.terms);
  const bonus = 0.5 * Math.max(0, 1 - perTerm / PER_TERM);
  return {
    value: rollout.correct ? 1 + bonus : 0,
    columns: { 'tokens per term': perTerm },
    metrics: { 'brief/tokens_per_term': perTerm },
  };
}
