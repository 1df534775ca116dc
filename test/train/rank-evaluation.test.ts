/** Evaluations of a run of two processes, of which one follows the other's orders, in one process. */
import { rmSync } from 'node:fs';
import { errorCode } from '../../src/base/errors';
import type { ConfigInput } from '../../src/config';
import { NO_WATCH } from '../../src/grpo/watch';
import type { EvalPhase } from '../../src/life/events';
import { Halt } from '../../src/life/halt';
import { openNew } from '../../src/life/opening';
import type { Watchdog } from '../../src/life/watchdog';
import type { ProcessGroup } from '../../src/ranks';
import { evaluatePolicy, evaluationContext } from '../../src/train/evaluation';
import { Follower } from '../../src/train/follower';
import { Lead } from '../../src/train/lead';
import { openModel } from '../../src/train/opened';
import { GRPO } from '../../src/train/opening';
import { startState } from '../../src/train/state';
import type { Together } from '../../src/train/together';
import { FakeEngine, type FakeFaults, type FakePolicy } from '../helpers/fake-engine';
import { fakeRun, removeFakeRuns } from '../helpers/fake-run';
import { groupsInProcess } from '../helpers/ranks-in-process';

afterAll(removeFakeRuns);

const SETTINGS: ConfigInput = {
  ...{ maxSteps: 2, promptsPerStep: 2, numGenerations: 4, maxCompletionLength: 40, learningRate: 100 },
  ...{ evalProblems: 20, evalSampledProblems: 10, evalMaxNewTokens: 60, beta: 0 },
};
const quiet = { ...NO_WATCH, hung: null, abandoned: false, loaded: () => undefined, close: () => undefined };
const watchdog = quiet as unknown as Watchdog;

async function open(processes: ProcessGroup | undefined, faults: FakeFaults = {}) {
  const { out, tokenizer, trainData, evalData } = fakeRun();
  const parts = { tokenizer, trainData, evalData };
  const asked = { settings: SETTINGS, parts, fetching: {}, acceptChanged: [], trust: false, ranks: 1 };
  const opening = await openNew(GRPO, out, asked);
  const opened = await openModel(opening, watchdog, { engine: new FakeEngine(faults), processes });
  const state = await startState(opening, opened.loop);
  rmSync(out, { recursive: true });
  const kept: unknown[] = [];
  const context = evaluationContext(opened.loop, opening.inputs, {
    emit: () => undefined,
    save: async (kind, rows) => {
      const inOrder = [...rows].sort((a, b) => a.index - b.index);
      kept.push([kind, inOrder.map(({ index, text, ids, format }) => ({ index, text, ids, format }))]);
    },
  });
  const evaluate = (phase: EvalPhase) => evaluatePolicy(context, phase, undefined);
  return { opened, loop: opened.loop, state, context, evaluate, kept };
}

/** The process that follows, until it is told the end. */
async function follower(group: ProcessGroup, faults: FakeFaults = {}) {
  const { opened, loop, context } = await open(group, faults);
  const together = {
    joined: { beats: { finish: () => undefined }, launch: { rank: 1 } },
    part: async () => undefined,
  } as unknown as Together;
  const steps = new Follower('', together, opened, context, new Halt(), watchdog).drive();
  const all = (async () => {
    for (;;) if ((await steps.next()).done === true) return;
  })();
  return { ended: all.then(() => 'ended', errorCode), policy: loop.policy as FakePolicy };
}

const one = async () => {
  const { loop, state, evaluate, kept } = await open(undefined);
  const found = [await evaluate('base')];
  const lead = new Lead(loop, null);
  for await (const _ of lead.steps(state, {})) found.push(await evaluate('step'));
  return { found, kept };
};

test('evaluations between steps are those of one process', async () => {
  const [group, other] = groupsInProcess(2);
  const { loop, state, evaluate, kept } = await open(group);
  const second = await follower(other!);
  const lead = new Lead(loop, async () => undefined);
  const found = [];
  await lead.evaluate('base');
  found.push(await evaluate('base'));
  for await (const _ of lead.steps(state, {})) {
    await lead.evaluate('step');
    found.push(await evaluate('step'));
  }
  await lead.end(undefined);
  expect({ found, kept }).toEqual(await one());
  expect(await second.ended).toBe('INTERRUPTED');
});

test('an evaluation before the first step, and after a rollback, is of the weights that rank 0 has shared', async () => {
  const [group, other] = groupsInProcess(2);
  const { loop, evaluate } = await open(group);
  const second = await follower(other!);
  const lead = new Lead(loop, async () => undefined);
  const policy = loop.policy as FakePolicy;
  const evaluated = async (theta: [number, number]) => {
    policy.theta = theta;
    await lead.share(null);
    await lead.evaluate('step');
    const evaluation = await evaluate('step');
    expect(second.policy.theta).toEqual(theta);
    return evaluation;
  };
  const short = await evaluated([2, 1]);
  const long = await evaluated([0, 0]);
  expect(short.greedy!.thinkingTokens).toBeLessThan(long.greedy!.thinkingTokens);
  await lead.end(undefined);
  await second.ended;
});

test('numbers that are not finite on the other process end the evaluation, not the run', async () => {
  const [group, other] = groupsInProcess(2);
  const { loop, evaluate } = await open(group);
  let broken = true;
  const second = await follower(other!, { nonFinite: (call) => call === 'generate' && broken });
  const lead = new Lead(loop, async () => undefined);
  await lead.evaluate('base');
  expect(await evaluate('base').catch(errorCode)).toBe('NOT_FINITE');
  broken = false;
  await lead.evaluate('base');
  expect((await evaluate('base')).greedy!.n).toBe(20);
  await lead.end(undefined);
  expect(await second.ended).toBe('INTERRUPTED');
});

test('answers that rank 0 cannot keep end the evaluation on both, and rank 0 says what follows', async () => {
  const [group, other] = groupsInProcess(2);
  const { loop, context } = await open(group);
  const second = await follower(other!);
  const lead = new Lead(loop, async () => undefined);
  const full = { ...context, save: () => Promise.reject(new Error('The disk is full.')) };
  await lead.evaluate('base');
  const error: unknown = await evaluatePolicy(full, 'base', undefined).catch((caught: unknown) => caught);
  expect(error).toEqual(new Error('The disk is full.'));
  await lead.end(error);
  expect(await second.ended).toBe('INTERNAL');
});
