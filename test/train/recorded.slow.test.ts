/** Recorded runs replayed through the monitor, and the monitor's state in checkpoints. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { train, watchRecorded, type TrainEvent } from '../../src/train';
import { checkStoredState } from '../../src/train/state';
import { EVALUATED, READ, type HealthChange } from '../../src/monitor';
import { writeChecksums } from '../../src/run/checksums';
import { acoer } from '../helpers/cli';
import { fakeParts, fakeRun, metricsOf, newFolder, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

afterAll(removeFakeRuns);

/** So sensitive that noise in the fake's accuracy sometimes changes its state. */
const eager: Given = {
  maxSteps: 16,
  evalSteps: 4,
  evalSampledProblems: 20,
  monitor: {
    spanGroups: 8,
    collapseAccuracyDrop: 0.1,
    collapseZ: 0,
    collapseThinkingRatio: null,
    warningZ: 0,
  },
};

async function recorded(more: Given = {}) {
  const changes: HealthChange[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'health') changes.push(event.change);
  };
  const given = fakeRun({ ...eager, ...more, onEvent });
  await (await train(...asCall(given))).result();
  return { folder: given.out, changes };
}

const lineOf = ({ step, from, to, reason }: HealthChange) => `step ${step}: ${from} -> ${to}. ${reason}\n`;

test.each<[string, Given]>([
  ['evaluated between its steps', {}],
  ['judged by its batches', { evalSteps: 0 }],
  ['with several updates per batch', { evalSteps: 0, stepsPerGeneration: 2, numIterations: 2, maxSteps: 32 }],
])('a run %s: the replay reports the same changes as the run', async (_, more) => {
  const { folder, changes } = await recorded(more);
  expect(changes.length).toBeGreaterThan(0);
  expect(watchRecorded(folder).changes).toEqual(changes);
  const { code, stdout } = await acoer('monitor', folder);
  expect({ code, stdout }).toEqual({ code: 0, stdout: changes.map(lineOf).join('') });
  const json = await acoer('monitor', folder, '--json');
  expect(json.stdout).toBe(changes.map((change) => `${JSON.stringify(change)}\n`).join(''));
  // With other settings it finds something else.
  expect(watchRecorded(folder, { set: ['monitor.preset=paper', 'monitor.spanGroups=1000'] }).changes).toEqual(
    [],
  );
});

test('every name the monitor reads is in the metrics of a run', async () => {
  const { folder } = await recorded();
  const written = new Set(metricsOf(folder).flatMap((line) => Object.keys(line)));
  const names = [READ, EVALUATED.greedy, EVALUATED.sampled].flatMap((of) => Object.values<string>(of));
  expect(names.filter((name) => !written.has(name))).toEqual([]);
});

describe('a file of metrics', () => {
  const path = join(newFolder(), '..', 'bare.jsonl');
  const line = (step: number) =>
    `{"accuracy/mean": 0.8, "thinking/mean": 100, "note": "text", "gone": null, "loss": ${step}}`;
  const write = (...more: string[]) =>
    writeFileSync(path, [...Array.from({ length: 50 }, (_, i) => line(i)), ...more].join('\n'));
  afterAll(() => rmSync(path, { force: true }));

  test('needs few names and no steps; what is missing is reported once', async () => {
    write();
    const { code, stdout, stderr } = await acoer('monitor', path, '--groups', '8');
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr.match(/advantages\/brevity/g)).toHaveLength(1);
    expect(stderr).toContain('50 lines');
    expect(stderr).not.toContain('collapsed');
  });

  test('may end in a line that was cut off', async () => {
    write('{"accuracy/mean": 0.');
    expect((await acoer('monitor', path, '--groups', '8')).code).toBe(0);
  });

  test.each<[string, string[], RegExp]>([
    ['without --groups', [path], /--groups N/],
    ['that is not there', ['/no/such.jsonl', '--groups', '1'], /Cannot read \/no\/such\.jsonl/],
    [
      'with a setting that has been renamed',
      [path, '--groups', '1', '--set', 'monitor.baseSteps=3'],
      /baseGroups/,
    ],
    [
      "with a setting that is not the monitor's",
      [path, '--groups', '1', '--set', 'seed=3'],
      /seed is not a setting of the monitor/,
    ],
  ])('%s ends with exit code 2 and one sentence', async (_, words, message) => {
    write();
    const { code, stdout, stderr } = await acoer('monitor', ...words);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  test('that is damaged is refused, naming the line', async () => {
    write('{"accuracy', line(1));
    const { code, stderr } = await acoer('monitor', path, '--groups', '1');
    expect(code).toBe(2);
    expect(stderr).toContain('line 51 is not a line of metrics');
  });
});

describe('the monitor of a checkpoint', () => {
  const stateOf = (path: string) =>
    JSON.parse(readFileSync(join(path, 'state.json'), 'utf8')) as {
      guard: { monitor: Record<string, unknown> };
    };
  /** As written by versions without a history of accuracy. */
  const earlier = {
    health: 'healthy',
    averages: { batches: 6, moving: {}, base: {}, highest: {}, lowest: {} },
    collapseSteps: 0,
    warningSteps: 0,
    calmSteps: 3,
    step: 6,
  };

  test('from an earlier version starts over, with one warning', async () => {
    const { folder } = await recorded({ maxSteps: 8 });
    for (const step of [8])
      rmSync(join(folder, 'checkpoints', `step-${String(step).padStart(6, '0')}`), { recursive: true });
    rmSync(join(folder, 'summary.json'));
    const path = join(folder, 'checkpoints', 'step-000006');
    const state = stateOf(path);
    state.guard.monitor = earlier;
    writeFileSync(join(path, 'state.json'), JSON.stringify(state));
    rmSync(join(path, 'SHA256SUMS'));
    await writeChecksums(path);
    const warnings: string[] = [];
    const onEvent = (event: TrainEvent) => {
      if (event.type === 'warning') warnings.push(event.message);
    };
    await (await train({}, { resume: folder, ...fakeParts(), onEvent })).result();
    expect(warnings.filter((message) => message.includes('monitor'))).toEqual([
      "The checkpoint's collapse monitor comes from an earlier version: the monitor starts over from here.",
    ]);
    expect(stateOf(join(folder, 'checkpoints', 'step-000008')).guard.monitor).toHaveProperty(
      ['accuracy', 'groups'],
      16,
    );
  });

  test('that no version wrote is reported as damage, with its place', async () => {
    const { folder } = await recorded({ maxSteps: 8 });
    const state = stateOf(join(folder, 'checkpoints', 'step-000008'));
    expect(() => checkStoredState('c', state)).not.toThrow();
    state.guard.monitor.accuracy = { groups: -1 };
    expect(() => checkStoredState('c', state)).toThrow(
      'c/state.json is damaged: guard.monitor.accuracy.groups',
    );
  });
});
