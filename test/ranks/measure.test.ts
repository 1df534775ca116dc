/** What `acoer doctor --ranks` measures, on ranks in one process. */
import type { ProcessGroup } from '../../src/ranks';
import { measureRanks, slowRanks } from '../../src/ranks/measure';
import { groupsInProcess } from '../helpers/ranks-in-process';

test('all ranks get the same times, and the rank whose data takes long is slow', async () => {
  const delayed = (group: ProcessGroup): ProcessGroup => ({
    ...group,
    // What rank 1 sends comes late.
    allGather: async (item) => {
      const late = group.rank === 1 && item instanceof Uint8Array && item.length > 0;
      if (late) await new Promise((resolve) => setTimeout(resolve, 5));
      return group.allGather(item);
    },
  });
  const groups = groupsInProcess(3).map(delayed);
  const [first, ...others] = await Promise.all(groups.map((group) => measureRanks(group, 800)));
  for (const other of others) expect(other).toEqual(first);
  expect(first!.bytes).toBe(800);
  expect(first!.sendMs).toHaveLength(3);
  expect(first!.sendMs[1]).toBeGreaterThan(25);
  expect(slowRanks(first!)[1]).toBe(true);
});

test('the median of the ranks says which are slow', () => {
  expect(slowRanks({ sendMs: [10, 11] })).toEqual([false, false]);
  expect(slowRanks({ sendMs: [10, 20] })).toEqual([false, true]);
  expect(slowRanks({ sendMs: [10, 11, 30, 12] })).toEqual([false, false, true, false]);
});
