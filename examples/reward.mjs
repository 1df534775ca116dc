// A custom reward: correct answers earn 1, and up to 0.5 more for thinking less than their group's average.
//
//   npx acoer train --preset tiny --set rewardModules.brief=examples/reward.mjs --reward brief
//
// It runs in its own thread; `rollout` is one of `group.rollouts`.
export default function brief(rollout, group) {
  if (!rollout.correct) return 0;
  const lengths = group.rollouts.map(({ thinkingTokens }) => thinkingTokens);
  const average = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  return 1 + 0.5 * Math.max(0, 1 - rollout.thinkingTokens / Math.max(1, average));
}
