/** The completions of recorded runs, shared among ranks in the two ways that are compared. */
import { createRequire } from 'node:module';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../lib/study.mjs';

const require = createRequire(import.meta.url);
const { dealtByLength, dealtOf } = require(join(root, 'dist/base/dealing'));
const { readCompletions } = require(join(root, 'dist/run'));

/** @returns the groups of a run with `completionsSteps: 1`, in the order in which they were sampled */
export async function recordedGroups(run) {
  const folder = join(run, 'completions');
  const groups = new Map();
  for (const file of readdirSync(folder).sort()) {
    for (const { step, promptIndex, problemId, level, totalTokens } of await readCompletions(
      join(folder, file),
    )) {
      const key = `${step} ${promptIndex}`;
      const prompt = { problem: { id: problemId, level } };
      if (!groups.has(key)) groups.set(key, { prompt, rollouts: [] });
      groups.get(key).rollouts.push({ totalTokens });
    }
  }
  return [...groups.values()];
}

export const lengthsOf = ({ rollouts }) => rollouts.map(({ totalTokens }) => totalTokens);

/** The lengths that each of `size` ranks samples of a batch: neighbouring groups, and dealt as acoer does. */
export function sharesOf(batch, size, expected) {
  const means = batch.map(({ prompt }) => expected.of(prompt));
  const parts = dealtByLength(size, means, batch[0].rollouts.length);
  const share = batch.length / size;
  return {
    inOrder: Array.from({ length: size }, (_, rank) =>
      batch.slice(Math.floor(rank * share), Math.floor((rank + 1) * share)).flatMap(lengthsOf),
    ),
    byLength: parts.map((hand) => dealtOf(hand, batch.map(lengthsOf))),
  };
}
