/**
 * Several ranks with the real engine and the embedded model, in one process: the completions, rewards, states and
 * metrics do not depend on the number of ranks or of threads, and all adapters are equal to the bit.
 *
 * ACOER_RANKS_SEEDS, from ACOER_RANKS_FIRST on, and ACOER_RANKS_STEPS make more of it: the study of decision 270.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConfigInput } from '../../src/config';
import { createEngine } from '../../src/engine/engine';
import type { Engine } from '../../src/engine/types';
import type { LoopStep } from '../../src/grpo/step';
import type { ProcessGroup } from '../../src/ranks';
import { comparable, groupsInProcess, trainRank, type Trained } from '../helpers/ranks-in-process';

const SEEDS = Number(process.env.ACOER_RANKS_SEEDS ?? 1);
const FIRST = Number(process.env.ACOER_RANKS_FIRST ?? 1);
const STEPS = Number(process.env.ACOER_RANKS_STEPS ?? 3);
/** A step takes a second on a busy machine. */
const TIMEOUT_MS = 120_000 + SEEDS * STEPS * 20_000;

const root = mkdtempSync(join(tmpdir(), 'acoer-ranks-'));
let runs = 0;
const engines: Engine[] = [];
beforeAll(async () => {
  for (const threads of [1, 2]) engines.push(await createEngine({ device: 'cpu', threads }));
});
afterAll(async () => {
  for (const engine of engines) await engine.dispose();
  rmSync(root, { recursive: true });
});

const train = (engine: Engine, processes: ProcessGroup | undefined, more: ConfigInput): Promise<Trained> =>
  trainRank(join(root, `run-${runs++}`), engine, processes, more);

const ranksOf = (engine: Engine, size: number, more: ConfigInput): Promise<Trained[]> =>
  Promise.all(groupsInProcess(size).map((group) => train(engine, group, more)));

const exact = (value: unknown) =>
  JSON.stringify(value, (_, part: unknown) =>
    ArrayBuffer.isView(part) ? Array.from(part as Float64Array) : part,
  );

/** Completions, rewards and states of a step, to the last bit. */
const outcome = ({ generated, position }: LoopStep) => ({
  completions: exact(
    generated?.groups.map(({ rollouts }) =>
      rollouts.map(({ ids, logprobs, entropies, verdict }) => ({ ids, logprobs, entropies, verdict })),
    ),
  ),
  rewards: exact(generated?.rewards),
  states: exact(position.loop.rewardStates),
});

/** Ends at the first step that differs. @returns how many metrics were not equal to the bit */
function expectSame(found: readonly LoopStep[], expected: readonly LoopStep[]): number {
  let rounded = 0;
  expect(found).toHaveLength(expected.length);
  found.forEach((step, i) => {
    const other = expected[i]!;
    for (const [what, own] of Object.entries(outcome(step)))
      if (own !== outcome(other)[what as keyof ReturnType<typeof outcome>])
        throw new Error(`the ${what} of step ${i + 1} differ`);
    const [own, its] = [comparable(step), comparable(other)];
    expect(own.map(([name]) => name)).toEqual(its.map(([name]) => name));
    own.forEach(([name, value], j) => {
      const gap = Math.abs(value! - its[j]![1]!);
      if (gap > 1e-9) throw new Error(`${name} of step ${i + 1}: ${value} and ${its[j]![1]}`);
      if (gap > 0) rounded++;
    });
  });
  return rounded;
}

const VARIANTS: [string, number[], ConfigInput][] = [
  ['as the preset trains', [2, 3, 4], {}],
  ['in micro-batches of two runs', [3], { microBatchTokens: 900 }],
  [
    'with several updates, a KL term, dropout and the tokens of highest entropy',
    [3],
    { numIterations: 2, beta: 0.04, loraDropout: 0.1, topEntropyQuantile: 0.5 },
  ],
  ['all weights', [3], { full: true, learningRate: 1e-4 }],
];

for (const [variant, sizes, more] of VARIANTS) {
  test(
    `1, ${sizes.join(', ')} ranks make the same run: ${variant}`,
    async () => {
      for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
        const settings = { ...more, seed, maxSteps: STEPS };
        const one = await train(engines[0]!, undefined, settings);
        const alone = await train(engines[1]!, undefined, settings);
        expectSame(alone.steps, one.steps);
        expect(alone.adapter.equals(one.adapter)).toBe(true);
        for (const size of sizes) {
          const ranks = await ranksOf(engines[size % 2]!, size, settings);
          for (const { steps, adapter } of ranks) {
            expectSame(steps, one.steps);
            expect(adapter.equals(ranks[0]!.adapter)).toBe(true);
          }
          expect(ranks[0]!.adapter.equals(one.adapter)).toBe(true);
        }
      }
    },
    TIMEOUT_MS,
  );
}
