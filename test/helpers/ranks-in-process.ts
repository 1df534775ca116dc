/** Several ranks in one process that meet at every call, and what of their steps can be compared. */
import type { LoopStep } from '../../src/grpo/step';
import type { ProcessGroup } from '../../src/ranks';

/** Gives all of `size` ranks what each of them brought, once the last has arrived. */
class Meeting<Item> {
  private brought: Item[] = [];
  private waiting: ((brought: Item[]) => void)[] = [];

  constructor(private readonly size: number) {}

  meet(rank: number, item: Item): Promise<Item[]> {
    this.brought[rank] = item;
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      if (this.waiting.length < this.size) return;
      const [brought, waiting] = [this.brought, this.waiting];
      [this.brought, this.waiting] = [[], []];
      waiting.forEach((answer) => answer(brought));
    });
  }
}

/** Processes that meet at every call; what they bring travels as copies. */
export function groupsInProcess(size: number): ProcessGroup[] {
  const meeting = new Meeting<{ call: string; item: unknown }>(size);
  const meet = async (rank: number, call: string, item: unknown) => {
    const all = await meeting.meet(rank, { call, item: structuredClone(item) });
    expect(new Set(all.map((one) => one.call)).size).toBe(1);
    return all.map((one) => one.item);
  };
  return Array.from({ length: size }, (_, rank): ProcessGroup => ({
    rank,
    size,
    allGather: async <Item>(item: Item) => (await meet(rank, 'gather', item)) as Item[],
    sumInPlace: async (values) => {
      const all = (await meet(rank, 'sum', values)) as (typeof values)[];
      values.forEach((_, i) => (values[i] = all.reduce((total, one) => total + one[i]!, 0)));
    },
  }));
}

const CLOCKED = /^(step_time$|time\/|memory\/|micro_batches$)/;

/** A step's metrics by name, without those that depend on the clock or on how the work is shared. */
export const comparable = ({ metrics }: LoopStep) =>
  Object.entries(metrics).filter(([name]) => !CLOCKED.test(name));
