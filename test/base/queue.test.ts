/** Which groups in flight a step trains on. */
import { groupsNeeded, groupsToBegin, nextBatch } from '../../src/base/queue';

const settings = {
  groupsInFlight: 4,
  maxStaleness: 3,
  promptsPerStep: 1,
  stepsPerGeneration: 1,
  numIterations: 1,
  maxSteps: 100,
};
const groups = (...begun: number[]) => begun.map((step) => ({ begun: step, completed: null }));
const needed = (step: number, begun: number[], more: Partial<typeof settings> = {}) => [
  ...groupsNeeded({ ...settings, ...more }, step, groups(...begun)),
];

test('a batch is awaited, of whichever groups', () => {
  expect(needed(9, [8, 8, 9, 9])).toEqual([0, 0, 0, 1]);
  expect(needed(9, [9, 9, 9, 9], { promptsPerStep: 2 })).toEqual([0, 0, 0, 2]);
});

test('a group that is too stale for the next batch is awaited', () => {
  expect(needed(3, [0, 2, 3, 3])).toEqual([1, 0, 0, 1]);
});

test('of several that soon are, as many as no longer fit into the batches left', () => {
  // Four groups begun together have four batches: each must take one of those that are left.
  expect(needed(0, [0, 0, 0, 0])).toEqual([0, 0, 0, 1]);
  expect(needed(1, [0, 0, 0, 1])).toEqual([0, 0, 1, 1]);
  expect(needed(2, [0, 0, 1, 2])).toEqual([0, 1, 1, 1]);
});

test('a batch may be several updates', () => {
  expect(needed(2, [0, 2], { numIterations: 2, maxStaleness: 3 })).toEqual([1, 1]);
  expect(needed(2, [0, 2], { numIterations: 2, maxStaleness: 4 })).toEqual([0, 1]);
});

test('new groups fill up, and none begins that the run would not train on', () => {
  expect(groupsToBegin(settings, 0, 0)).toBe(4);
  expect(groupsToBegin(settings, 50, 3)).toBe(1);
  expect(groupsToBegin(settings, 98, 3)).toBe(0);
  expect(groupsToBegin(settings, 98, 0)).toBe(2);
  expect(groupsToBegin({ ...settings, stepsPerGeneration: 2 }, 97, 0)).toBe(4);
});

test('groups are trained on in the order of completion, unless one is too stale to wait', () => {
  const all = [3, null, 0, 1].map((completed, name) => ({ name, completed }));
  const batch = (...counts: number[]) => nextBatch(all, Int32Array.from(counts)).map(({ name }) => name);
  expect(batch(0, 0, 0, 1)).toEqual([2]);
  expect(batch(0, 0, 0, 2)).toEqual([2, 3]);
  expect(batch(1, 1, 1, 1)).toEqual([0]);
  expect(batch(1, 1, 1, 2)).toEqual([2, 0]);
  expect(batch(0, 0, 2, 2)).toEqual([2, 0]);
});

test('whoever completes first, no group gets older than allowed', () => {
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (const [inFlight, batch, maxStaleness] of [[4, 1, 3], [4, 1, 5], [5, 2, 2], [9, 2, 4], [3, 2, 1]]) {
    const config = { ...settings, groupsInFlight: inFlight!, promptsPerStep: batch!, maxStaleness: maxStaleness! };
    let live: { begun: number; completed: number | null }[] = [];
    let order = 0;
    for (let step = 0; step < config.maxSteps; step++) {
      live.push(...groups(...new Array<number>(groupsToBegin(config, step, live.length)).fill(step)));
      const counts = groupsNeeded(config, step, live);
      const enough = () =>
        counts.every((count, i) => live.slice(0, i + 1).filter((one) => one.completed !== null).length >= count);
      while (!enough()) {
        // The youngest tend to be first.
        const open = live.filter((one) => one.completed === null);
        open[Math.floor(open.length * Math.sqrt(random()))]!.completed = order++;
      }
      const taken = nextBatch(live, counts);
      expect(taken).toHaveLength(config.promptsPerStep);
      for (const { begun } of taken) expect(step - begun).toBeLessThanOrEqual(config.maxStaleness);
      live = live.filter((one) => !taken.includes(one));
    }
    expect(live).toEqual([]);
  }
}); // prettier-ignore
