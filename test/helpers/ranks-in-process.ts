/** Several ranks in one process that meet at every call, and what of their steps can be compared. */
import { readFileSync } from 'node:fs';
import type { ConfigInput } from '../../src/config';
import type { Engine } from '../../src/engine/types';
import { trainSteps } from '../../src/grpo/loop';
import type { LoopStep } from '../../src/grpo/step';
import { NO_WATCH } from '../../src/grpo/watch';
import { openNew } from '../../src/life/opening';
import type { Watchdog } from '../../src/life/watchdog';
import type { ProcessGroup } from '../../src/ranks';
import { closeInputs } from '../../src/train/inputs';
import { openModel } from '../../src/train/opened';
import { GRPO } from '../../src/train/opening';
import { startState } from '../../src/train/state';

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
    gatherInPlace: async (values, offsets) => {
      const own = values.slice(offsets[rank], offsets[rank + 1]);
      const all = (await meet(rank, `gather ${offsets.join()}`, own)) as (typeof own)[];
      all.forEach((part, r) => values.set(part, offsets[r]));
    },
  }));
}

/** What a rank has trained: its steps, and the bytes of its weights. */
export interface Trained {
  steps: LoopStep[];
  adapter: Buffer;
}

/**
 * Trains the embedded model as the only process, or as one of `processes`, without evaluations and checkpoints.
 * @param out a folder that is not there yet
 */
export async function trainRank(
  out: string,
  engine: Engine,
  processes: ProcessGroup | undefined,
  more: ConfigInput,
): Promise<Trained> {
  const settings = { preset: 'tiny', evalProblems: 0, evalSampledProblems: 0, saveSteps: 0, ...more };
  const asked = { settings, parts: {}, fetching: {}, acceptChanged: [], trust: false, ranks: 1 };
  const opening = await openNew(GRPO, out, asked);
  const watchdog = { ...NO_WATCH, loaded: () => undefined } as unknown as Watchdog;
  const { loop } = await openModel(opening, watchdog, { engine, processes });
  const start = await startState(opening, loop);
  const steps: LoopStep[] = [];
  for await (const step of trainSteps(loop, start, {})) steps.push(step);
  const file = `${out}.safetensors`;
  await loop.policy.save(file);
  await loop.model.dispose();
  await closeInputs(opening.inputs);
  return { steps, adapter: readFileSync(file) };
}

const CLOCKED = /^(step_time$|time\/|memory\/|ranks\/|micro_batches$)/;

/** A step's metrics by name, without those that depend on the clock or on how the work is shared. */
export const comparable = ({ metrics }: LoopStep) =>
  Object.entries(metrics).filter(([name]) => !CLOCKED.test(name));
