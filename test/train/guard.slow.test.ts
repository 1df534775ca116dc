import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../src/base/errors';
import { train, type TrainEvent, type TrainSettings } from '../../src/train';
import { readRollbacks, recordRollback, RunDirectory } from '../../src/run';
import { fakeParts, fakeRun, filesOf, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { copyAsCrashed, untimedFiles } from '../helpers/run-files';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

/** So sensitive that noise in the fake's accuracy sometimes counts as a collapse. */
const eager: Given = {
  maxSteps: 20,
  onCollapse: 'rollback',
  maxRollbacks: 50,
  rollbackPressure: 0.5,
  monitor: {
    spanGroups: 8,
    collapseAccuracyDrop: 0.2,
    collapseZ: null,
    collapseThinkingRatio: null,
    collapseSteps: 1,
    warningZ: null,
    warningAccuracyDrop: 0.1,
    warningAllWrongRise: 0.12,
  },
};

interface Collapse {
  folder: string;
  events: TrainEvent[];
  /** The folder as it was at the first event of each type, after the first collapse. */
  at: Map<string, string>;
}

async function collapsing(more: Given = {}): Promise<Collapse> {
  const events: TrainEvent[] = [];
  const at = new Map<string, string>();
  const folder = newFolder();
  const keep = (name: string) => {
    if (at.has(name)) return;
    at.set(name, newFolder());
    copyAsCrashed(folder, at.get(name)!);
  };
  let rollbacks = 0;
  let collapsed = false;
  let since = 0;
  const onEvent = (event: TrainEvent) => {
    events.push(event);
    if (event.type === 'health' && event.change.to === 'collapsed') collapsed = true;
    if (event.type === 'step' && collapsed) keep('collapse');
    if (event.type === 'rollback' && ++rollbacks === 1) keep('rollback');
    if (event.type === 'step' && rollbacks === 1 && ++since === 1) keep('step after');
  };
  await (await train(...asCall(fakeRun({ ...eager, ...more, out: folder, onEvent })))).result();
  return { folder, events, at };
}

const resume = async (folder: string) => (await train({}, { resume: folder, ...fakeParts() })).result();

function expectSameRun(folder: string, whole: string): void {
  expect(metricsOf(folder)).toEqual(metricsOf(whole));
  expect(filesOf(folder)).toEqual(filesOf(whole));
  expect(untimedFiles(folder).get('tensorboard')).toEqual(untimedFiles(whole).get('tensorboard'));
}

describe('a rollback', () => {
  test('returns to a healthy checkpoint with less pressure, new seeds and a capped alpha', async () => {
    const { folder, events } = await collapsing();
    const rollbacks = readRollbacks(new RunDirectory(folder));
    expect(rollbacks.length).toBeGreaterThan(0);
    const told = events.filter((event) => event.type === 'rollback').map(({ rollback }) => rollback);
    expect(told).toEqual(rollbacks);
    rollbacks.forEach(({ number, from, to, pressure, reason }, i) => {
      expect(number).toBe(i + 1);
      expect(to).toBeLessThan(from);
      expect(pressure).toBe(0.5 ** number);
      expect(reason).toMatch(/^Collapse: /);
    });
    const lines = metricsOf(folder);
    expect(lines.map(({ step }) => step)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    const last = lines.at(-1)!;
    expect(last['monitor/rollbacks']).toBe(rollbacks.length);
    expect(last['monitor/pressure']).toBe(0.5 ** rollbacks.length);
    // ACOER's alphaMax is 0.5, its alphaMin 0.01.
    expect(last['acoer/alpha']).toBeLessThanOrEqual(Math.max(0.01, 0.5 * 0.5 ** rollbacks.length));
  });

  test('keeps the lines it removes, and samples differently the second time', async () => {
    const { folder } = await collapsing();
    const [first] = readRollbacks(new RunDirectory(folder));
    const text = readFileSync(join(folder, 'rolled-back-1.jsonl'), 'utf8').trim().split('\n');
    const taken = text.map((row) => JSON.parse(row) as Record<string, number>);
    expect(taken.map(({ step }) => step)).toEqual(
      Array.from({ length: first!.from - first!.to }, (_, i) => first!.to + 1 + i),
    );
    expect(taken.at(-1)!['monitor/state']).toBe(2);
    const again = metricsOf(folder).find(({ step }) => step === first!.to + 1)!;
    expect(again['thinking/mean']).not.toBe(taken[0]!['thinking/mean']);
  });

  test.each(['collapse', 'rollback', 'step after'])(
    'a crash at its %s does not change a bit of the run',
    async (moment) => {
      const { folder, at } = await collapsing();
      const copy = at.get(moment)!;
      await resume(copy);
      expectSameRun(copy, folder);
    },
  );

  test.each([
    ['before a checkpoint is removed', false],
    ['after some were removed', true],
  ])('a crash in the middle of one, %s, does not change a bit of the run', async (_, some) => {
    const { folder, at } = await collapsing({ saveSteps: 1, maxSteps: 12 });
    const [first] = readRollbacks(new RunDirectory(folder));
    const copy = new RunDirectory(at.get('collapse')!);
    recordRollback(copy, first!);
    const later = copy.checkpointSteps().filter((step) => step > first!.to);
    if (some && later.length > 0) rmSync(copy.checkpoint(later[0]!), { recursive: true });
    await resume(copy.path);
    expectSameRun(copy.path, folder);
  });

  test('works with several updates per generated batch', async () => {
    const monitor = { ...eager.monitor, collapseAccuracyDrop: 0.3 };
    const several = { stepsPerGeneration: 2, numIterations: 2, promptsPerStep: 4, maxSteps: 40 };
    const { folder } = await collapsing({ ...several, monitor });
    expect(readRollbacks(new RunDirectory(folder)).length).toBeGreaterThan(0);
    expect(metricsOf(folder).map(({ step }) => step)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
  });

  test('keeps the healthy checkpoint when few are kept', async () => {
    const { folder } = await collapsing({ keepCheckpoints: 1 });
    expect(existsSync(join(folder, 'summary.json'))).toBe(true);
  });

  test('happens at most maxRollbacks times; the next collapse ends the run', async () => {
    const given = fakeRun({ ...eager, maxRollbacks: 1, maxSteps: 60 });
    const failed = (await train(...asCall(given))).result();
    await expect(failed).rejects.toMatchObject({ code: 'COLLAPSED' });
    await expect(failed).rejects.toThrow('maxRollbacks = 1');
    expect(readRollbacks(new RunDirectory(given.out))).toHaveLength(1);
  });
});

test('onCollapse stop ends the run with a checkpoint and the reason; it can be resumed', async () => {
  const given = fakeRun({ ...eager, onCollapse: 'stop' });
  const failed = (await train(...asCall(given))).result();
  expect(await failed.catch(errorCode)).toBe('COLLAPSED');
  await expect(failed).rejects.toThrow(/^The run ended after step \d+\. Collapse: /);
  const steps = new RunDirectory(given.out).checkpointSteps();
  expect(steps.at(-1)).toBe(metricsOf(given.out).at(-1)!.step);
});

test('onCollapse warn only warns and does not change training', async () => {
  const healths: string[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'health') healths.push(event.change.to);
  };
  const [warned, calm] = [fakeRun({ ...eager, onCollapse: 'warn', onEvent }), fakeRun({ maxSteps: 20 })];
  await (await train(...asCall(warned))).result();
  await (await train(...asCall(calm))).result();
  expect(healths).toContain('collapsed');
  const without = (folder: string) =>
    metricsOf(folder).map((line) =>
      Object.fromEntries(Object.entries(line).filter(([name]) => !name.startsWith('monitor/'))),
    );
  expect(without(warned.out)).toEqual(without(calm.out));
});

describe('a fork', () => {
  test('without changes equals the run it was forked from', async () => {
    const whole = fakeRun({ evalSteps: 3 });
    await (await train(...asCall(whole))).result();
    const out = newFolder();
    await (await train({}, { fork: { run: whole.out, at: 6 }, out, ...fakeParts() })).result();
    expect(metricsOf(out)).toEqual(metricsOf(whole.out));
    const [forked, source] = [filesOf(out), filesOf(whole.out)];
    for (const name of Object.keys(source).filter((path) => /^(final|checkpoints.step-00001)/.test(path))) {
      // The model card says that the run was forked.
      if (name === join('final', 'README.md')) continue;
      // The step of the last healthy checkpoint belongs to the directory, and is the same from step 6 on.
      expect([name, forked[name]]).toEqual([name, source[name]]);
    }
    expect(JSON.parse(forked['fork.json']!)).toEqual({ run: whole.out, step: 6 });
  });

  test('continues from the same weights with another reward and seed, and leaves its source alone', async () => {
    const whole = fakeRun();
    await (await train(...asCall(whole))).result();
    const before = filesOf(whole.out);
    const out = newFolder();
    const forked = await train(
      { reward: 'acc', seed: 7 },
      { fork: { run: whole.out, at: 6 }, out, ...fakeParts() },
    );
    await forked.result();
    const [old, fresh] = [metricsOf(whole.out), metricsOf(out)];
    expect(fresh.slice(0, 6)).toEqual(old.slice(0, 6));
    expect(fresh[6]).toHaveProperty(['rewards/acc/mean']);
    expect(fresh[6]).not.toHaveProperty(['acoer/alpha']);
    const weights = 'checkpoints/step-000006/adapter_model.safetensors';
    expect(filesOf(out)[weights]).toBe(before[weights]);
    expect(filesOf(whole.out)).toEqual(before);
    // It can be resumed without its source.
    rmSync(join(out, 'summary.json'));
    await resume(out);
    expect(metricsOf(out)).toEqual(fresh);
  });

  test('that was interrupted before its first checkpoint does not start over at step 0', async () => {
    const whole = fakeRun();
    await (await train(...asCall(whole))).result();
    const out = newFolder();
    const forked = await train({}, { fork: { run: whole.out, at: 6 }, out, ...fakeParts() });
    await forked.return();
    rmSync(join(out, 'checkpoints'), { recursive: true });
    await expect(resume(out)).rejects.toThrow('fork again');
  });

  test('whose model cannot be loaded leaves nothing behind', async () => {
    const whole = fakeRun();
    await (await train(...asCall(whole))).result();
    const out = newFolder();
    const parts = fakeParts();
    parts.engine.loadModel = () => Promise.reject(new Error('no such model'));
    await expect(train({}, { fork: { run: whole.out, at: 6 }, out, ...parts })).rejects.toThrow(
      'no such model',
    );
    expect(existsSync(out)).toBe(false);
  });

  test.each<[string, TrainSettings, number, string]>([
    ['a step without a checkpoint', {}, 5, 'no checkpoint of step 5 (it has 2, 4'],
    ['no steps left', { maxSteps: 4 }, 6, 'maxSteps is 4'],
    ['another shape of adapter', { loraRank: 4 }, 6, 'loraRank cannot change'],
    ['a preset', { preset: 'tiny' }, 6, 'leave out preset'],
  ])('refuses %s before anything is written', async (_, more, at, message) => {
    const whole = fakeRun();
    await (await train(...asCall(whole))).result();
    const out = newFolder();
    const failed = train(more, { fork: { run: whole.out, at }, out, ...fakeParts() });
    await expect(failed).rejects.toMatchObject({ code: 'BAD_CONFIG' });
    await expect(failed).rejects.toThrow(message);
    expect(existsSync(out)).toBe(false);
  });
});
