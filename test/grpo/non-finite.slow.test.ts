import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type StepPhase } from '../../src/grpo';
import { replay, train, type TrainEvent } from '../../src/train';
import { registerReward } from '../../src/rewards/registry';
import { readRollbacks, RunDirectory } from '../../src/run';
import { FakeEngine, type FakeCall, type FakeFaults } from '../helpers/fake-engine';
import { fakeParts, fakeRun, filesOf, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { copyAsCrashed } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

/** Completions whose rewards sum to more than a double can hold. */
const overflowing = new Set<string>();
const texts: string[] = [];
registerReward('sometimes-huge', ({ text, correct }) => {
  texts.push(text);
  return overflowing.has(text) ? Number(correct) * 1.7e308 : Number(correct);
});

/** The step that is refused, and the settings that make a run have the phase. */
const BAD = 5;
const settingsOf = (phase: StepPhase): Given => ({
  evalProblems: 0,
  ...(phase === 'score' && { numIterations: 2 }),
  ...(phase === 'advantages' && { reward: 'sometimes-huge' }),
});

/** Faults that make only `phase` of step `BAD` not finite under `settings`, found in a run without faults. */
async function faultIn(phase: StepPhase, settings: Given): Promise<FakeFaults> {
  overflowing.clear();
  const calls: { call: FakeCall; key: string }[] = [];
  const keyOf = (on: { ids: Int32Array; seed: bigint | null; theta: readonly number[] }) =>
    [on.seed, ...on.theta, ...on.ids].join(' ');
  const nonFinite: FakeFaults['nonFinite'] = (call, on) => {
    calls.push({ call, key: keyOf(on) });
    return false;
  };
  const clean = fakeRun({ ...settings, nonFinitePolicy: 'skip', saveSteps: 0, ...fakeParts({ nonFinite }) });
  for await (const { index } of await train(...asCall(clean))) if (index === BAD) break;
  if (phase === 'advantages') {
    for (const text of texts.slice(-32)) overflowing.add(text);
    return {};
  }
  const stepsBefore = calls.flatMap(({ call }, i) => (call === 'step' ? [i] : []));
  const since = calls.slice(stepsBefore[BAD - 2]! + 1);
  // Not the first completion, so that some have ended before generation fails.
  const culprit = since.filter(({ call }) => call === phase)[phase === 'generate' ? 7 : 0]!;
  return { nonFinite: (call, on) => call === phase && keyOf(on) === culprit.key };
}

interface Refused {
  folder: string;
  faults: FakeFaults;
  events: TrainEvent[];
  /** Copies of the folder at some events. */
  at: Map<string, string>;
  end: unknown;
}

const runs = new Map<string, Promise<Refused>>();

/** Tests that ask for the same run share it, and must leave its folder unchanged. */
function refusing(phase: StepPhase, more: Given = {}): Promise<Refused> {
  const key = JSON.stringify([phase, more]);
  if (!runs.has(key)) runs.set(key, refusedRun(phase, more));
  return runs.get(key)!;
}

async function refusedRun(phase: StepPhase, more: Given): Promise<Refused> {
  const settings = { ...settingsOf(phase), ...more };
  const faults = await faultIn(phase, settings);
  const events: TrainEvent[] = [];
  const at = new Map<string, string>();
  const folder = newFolder();
  const keep = (name: string) => {
    if (at.has(name)) return;
    at.set(name, newFolder());
    copyAsCrashed(folder, at.get(name)!);
  };
  const onEvent = (event: TrainEvent) => {
    events.push(event);
    if (event.type === 'warning') keep('dump');
    if (event.type === 'rollback') keep('rollback');
    if (event.type === 'step' && event.index === BAD) keep('step');
    if (event.type === 'step' && event.index === BAD + 1) keep('step after');
  };
  const run = await train(...asCall(fakeRun({ ...settings, out: folder, onEvent, ...fakeParts(faults) })));
  const end = await run.result().catch((error: unknown) => error);
  return { folder, faults, events, at, end };
}

const resume = async (folder: string, faults: FakeFaults, more: Given = {}) =>
  (await train(...asCall({ resume: folder, ...fakeParts(faults), ...more }))).result();

function expectSameRun(folder: string, whole: string): void {
  expect(metricsOf(folder)).toEqual(metricsOf(whole));
  expect(filesOf(folder)).toEqual(filesOf(whole));
}

const dumpOf = (folder: string, step = BAD) => new RunDirectory(folder).dump(step);
const textIn = (...path: string[]) => readFileSync(join(...path), 'utf8');
const loopIn = (...path: string[]) => (JSON.parse(textIn(...path, 'state.json')) as { loop: object }).loop;
const appliedSteps = (folder: string) => metricsOf(folder).map(({ update_applied: applied }) => applied);
const all = (steps: number, bad?: number) => Array.from({ length: steps }, (_, i) => (i + 1 === bad ? 0 : 1));

const PHASES: StepPhase[] = ['generate', 'advantages', 'score', 'accumulate', 'step'];
const BEFORE_THE_UPDATE: readonly StepPhase[] = ['generate', 'advantages', 'score'];

describe.each(PHASES)('a step that is not finite in the phase %s', (phase) => {
  test('is skipped: nothing of it is applied, and the run continues', async () => {
    const { folder, events } = await refusing(phase);
    expect(appliedSteps(folder)).toEqual(all(12, BAD));
    const warnings = events.flatMap((event) => (event.type === 'warning' ? [event.message] : []));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain(`Step ${BAD} was refused`);
    expect(warnings[0]).toContain(`acoer replay ${dumpOf(folder)}`);
    const checkpoint = join(folder, 'checkpoints', 'step-000004');
    for (const file of ['adapter_model.safetensors', 'optimizer.safetensors']) {
      expect(textIn(dumpOf(folder), file)).toBe(textIn(checkpoint, file));
    }
    expect(loopIn(dumpOf(folder))).toEqual(loopIn(checkpoint));
    const line = metricsOf(folder)[BAD - 1]!;
    expect('accuracy/mean' in line).toBe(!BEFORE_THE_UPDATE.includes(phase));
    expect(line).toMatchObject({ step: BAD, learning_rate: expect.any(Number), epoch: expect.any(Number) });
    // The next step has the same weights and controller as before, but other prompts.
    const next = metricsOf(folder)[BAD]!;
    expect(next.epoch).toBeGreaterThanOrEqual(line.epoch!);
  });

  test.each(['dump', 'step', 'step after'])(
    'is skipped in the same way after a crash at its %s',
    async (moment) => {
      const { folder, faults, at } = await refusing(phase);
      const copy = at.get(moment)!;
      await resume(copy, faults);
      expectSameRun(copy, folder);
    },
  );

  test('is reproduced bit for bit from its dump, but not on an engine where it is finite', async () => {
    const { folder, faults } = await refusing(phase, phase === 'accumulate' ? { microBatchTokens: 300 } : {});
    const again = await replay(dumpOf(folder), { engine: new FakeEngine(faults) });
    expect(again).toMatchObject({ reproduced: true, differences: [], step: BAD });
    expect(again.found).toEqual(again.recorded);
    expect(again.recorded.phase).toBe(phase);
    if (phase === 'advantages') return;
    const finite = await replay(dumpOf(folder), { engine: new FakeEngine() });
    expect(finite).toMatchObject({ reproduced: false, found: null });
    expect(finite.differences[0]).toMatch(/^The dump says: .* not finite.*Now: everything was finite\.$/);
  });

  test('ends the run under stop, as it was before the step; resumed under skip, the step is skipped', async () => {
    const { folder, faults, end } = await refusing(phase, { nonFinitePolicy: 'stop' });
    expect(end).toMatchObject({ code: 'NOT_FINITE' });
    expect(metricsOf(folder)).toHaveLength(BAD - 1);
    expect(new RunDirectory(folder).checkpointSteps().at(-1)).toBe(BAD - 1);
    expect(existsSync(dumpOf(folder))).toBe(true);
    await expect(resume(folder, faults)).rejects.toMatchObject({ code: 'NOT_FINITE' });
    await resume(folder, faults, { nonFinitePolicy: 'skip' });
    const skipped = await refusing(phase);
    expect(metricsOf(folder)).toEqual(metricsOf(skipped.folder));
  });

  test('causes a rollback under rollback: another stream of seeds, the same pressure', async () => {
    const { folder, end } = await refusing(phase, { nonFinitePolicy: 'rollback' });
    expect(end).not.toBeInstanceOf(Error);
    const [rollback, ...others] = readRollbacks(new RunDirectory(folder));
    expect(others).toEqual([]);
    // If only the weights can be to blame, a checkpoint with the same weights does not help.
    const to = ['advantages', 'step'].includes(phase) ? 4 : 2;
    expect(rollback).toMatchObject({ number: 1, from: BAD, to, pressure: 1 });
    expect(rollback!.reason).toContain('not finite');
    expect(appliedSteps(folder)).toEqual(all(12));
    expect(metricsOf(folder).at(-1)).toMatchObject({ 'monitor/rollbacks': 1, 'monitor/pressure': 1 });
  });

  test('is rolled back in the same way after a crash at the rollback', async () => {
    const { folder, faults, at } = await refusing(phase, { nonFinitePolicy: 'rollback' });
    const copy = at.get('rollback')!;
    await resume(copy, faults);
    expectSameRun(copy, folder);
  });
});

test('each completion that is not finite on its own is found', async () => {
  const { folder, faults } = await refusing('generate');
  const { recorded, offenders } = await replay(dumpOf(folder), {
    engine: new FakeEngine(faults),
    each: true,
  });
  expect(offenders).toHaveLength(1);
  expect(offenders![0]).toMatchObject({ promptIndex: recorded.promptIndex, sample: recorded.sample });
});

const always: FakeFaults = { nonFinite: (call) => call === 'generate' };

describe('weights that are never finite', () => {
  test('end a run that skips steps after maxNonFiniteSteps, keeping earlier checkpoints', async () => {
    // From step 4 on, as if an update had gone too far.
    let steps = 0;
    const nonFinite: FakeFaults['nonFinite'] = (call) => {
      if (call === 'step') steps++;
      return call === 'generate' && steps >= 4;
    };
    const given = fakeRun({
      evalProblems: 0,
      maxNonFiniteSteps: 5,
      saveSteps: 1,
      keepCheckpoints: 2,
      ...fakeParts({ nonFinite }),
    });
    const failed = (await train(...asCall(given))).result();
    await expect(failed).rejects.toMatchObject({ code: 'NOT_FINITE' });
    await expect(failed).rejects.toThrow('5 refused steps in a row');
    expect(appliedSteps(given.out)).toEqual([1, 1, 1, 1, 0, 0, 0, 0]);
    // The last one was written when the run ended.
    expect(new RunDirectory(given.out).checkpointSteps()).toEqual([4, 8]);
    expect(readdirSync(new RunDirectory(given.out).dumps()).sort()).toEqual([
      'step-000005',
      'step-000008',
      'step-000009',
    ]);
    await expect(resume(given.out, always)).rejects.toThrow('5 refused steps in a row');
  });

  test('end a run that rolls back, after maxRollbacks', async () => {
    const given = fakeRun({
      evalProblems: 0,
      nonFinitePolicy: 'rollback',
      maxRollbacks: 2,
      ...fakeParts(always),
    });
    const failed = (await train(...asCall(given))).result();
    await expect(failed).rejects.toMatchObject({ code: 'NOT_FINITE' });
    await expect(failed).rejects.toThrow('maxRollbacks = 2');
    expect(readRollbacks(new RunDirectory(given.out)).map(({ to }) => to)).toEqual([0, 0]);
  });
});

test('an evaluation whose logits are not finite is skipped, or ends the run under stop', async () => {
  const run = (nonFinitePolicy: 'skip' | 'stop') => {
    let steps = 0;
    const nonFinite: FakeFaults['nonFinite'] = (call, { theta }) => {
      if (call === 'step') steps++;
      return call === 'generate' && theta[0] !== 0 && steps === 3;
    };
    // The evaluated step generates nothing, so only the evaluation meets the fault.
    return fakeRun({ evalSteps: 3, numIterations: 6, nonFinitePolicy, ...fakeParts({ nonFinite }) });
  };
  const skip = run('skip');
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'warning') warnings.push(event.message);
  };
  await (await train(...asCall({ ...skip, onEvent }))).result();
  expect(warnings).toEqual([expect.stringContaining('Step 3 is not evaluated')]);
  const evaluated = metricsOf(skip.out).filter((line) => 'eval/greedy_accuracy' in line);
  expect(evaluated.map(({ step }) => step)).toEqual([6, 9, 12]);
  await expect((await train(...asCall(run('stop')))).result()).rejects.toMatchObject({ code: 'NOT_FINITE' });
});

describe('a dump', () => {
  test.each<[string, (dump: string) => void, string]>([
    ['that is none', (dump) => rmSync(dump, { recursive: true }), 'is not a dump of a refused step'],
    ['with a file that is cut off', (dump) => writeFileSync(join(dump, 'state.json'), '{'), 'damaged'],
    ['without its optimiser', (dump) => rmSync(join(dump, 'optimizer.safetensors')), 'damaged'],
  ])('%s is refused in a sentence', async (_, damage, message) => {
    const { folder, faults } = await refusing('accumulate');
    const dump = newFolder();
    cpSync(dumpOf(folder), dump, { recursive: true });
    damage(dump);
    const failed = replay(dump, { engine: new FakeEngine(faults) });
    await expect(failed).rejects.toMatchObject({ code: 'BAD_INPUT' });
    await expect(failed).rejects.toThrow(message);
  });
});
