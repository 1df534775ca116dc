/** The files of a sweep: states, slots, and what may be continued. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inSlot, isSweep, readSweep, runPath, slotOf, type Sweep } from '../../src/sweep';
import { readSweepFile } from '../../src/sweep/file';
import { SweepFolder, unbegun } from '../../src/sweep/folder';
import { hoursLeft, sweepRuns, together, type RunNeeds } from '../../src/sweep/plan';
import { mergedSweep } from '../../src/sweep/run';

const root = mkdtempSync(join(tmpdir(), 'acoer-sweep-folder-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
let made = 0;
const newPath = (): string => join(root, `sweep-${++made}`);

function planned(text = 'base: { preset: tiny }\ngrid: { seed: [1, 2, 3, 4, 5, 6] }') {
  const path = join(root, `file-${++made}.yaml`);
  writeFileSync(path, text);
  const file = readSweepFile(path);
  return { file, runs: sweepRuns(file), kind: 'sampled' as const };
}

const nothing = (): boolean => false;

function sweepOf(path: string, slot: { k: number; n: number } | null = null, resume = false) {
  const plan = planned();
  const folder = SweepFolder.open(path, resume, slot);
  const sweep = mergedSweep({ ...plan, slot, path }, folder.stored, () => true);
  const own = new Set(plan.runs.filter(({ hash }) => inSlot(slot, hash)).map((run) => run.folder));
  return { folder, sweep, own };
}

function ends(sweep: Sweep, folder: string, state: 'done' | 'failed', at = '2026-01-01T00:00:01.000Z'): void {
  const run = sweep.runs.find((one) => one.folder === folder)!;
  Object.assign(run, {
    state,
    exitCode: state === 'done' ? 0 : 1,
    startedAt: '2026-01-01T00:00:00.000Z',
    endedAt: at,
  });
}

test('what is written is read again; a folder without sweep.json is none', () => {
  const path = newPath();
  const { folder, sweep, own } = sweepOf(path);
  expect(isSweep(path)).toBe(false);
  expect(() => readSweep(path)).toThrow(/is not the folder of a sweep: it has no sweep\.json/);
  ends(sweep, 'runs/run-s2', 'done');
  folder.write(sweep, own);
  folder.close();
  expect(isSweep(path)).toBe(true);
  expect(readSweep(path)).toEqual(sweep);
  expect(runPath(path, sweep.runs[0]!)).toBe(join(path, 'runs/run-s1'));
});

test('a sweep is continued only with resume, and by one process at a time', () => {
  const path = newPath();
  const { folder, sweep, own } = sweepOf(path);
  expect(() => sweepOf(path)).toThrow(expect.objectContaining({ code: 'RUN_LOCKED' }));
  folder.write(sweep, own);
  folder.close();
  expect(() => sweepOf(path)).toThrow(/already contains a sweep; continue it with --resume/);
  const again = sweepOf(path, null, true);
  expect(again.sweep).toEqual({ ...sweep, name: again.sweep.name });
  again.folder.close();
});

test.each([
  ['text', 'x', /is not JSON|Cannot read/],
  ['another version', '{"version":2}', /sweep\.json is damaged: version/],
  [
    'a folder elsewhere',
    JSON.stringify({
      ...{ version: 1, name: 'x', made: '2026-01-01T00:00:00Z', evaluation: { kind: 'greedy' }, taken: null },
      runs: [
        unbegun({ folder: '../../x', method: 'x', seed: 1, point: {}, settings: {}, hash: '0'.repeat(64) }),
      ],
    }),
    /damaged: runs\.0\.folder: must be runs\/NAME/,
  ],
])('a damaged sweep.json is named: %s', (_, text, sentence) => {
  const path = newPath();
  mkdirSync(path);
  writeFileSync(join(path, 'sweep.json'), text);
  expect(() => readSweep(path)).toThrow(sentence);
});

test('slots write their own states, and reading puts them together', () => {
  const path = newPath();
  const one = sweepOf(path, { k: 1, n: 2 });
  const two = sweepOf(path, { k: 2, n: 2 });
  expect([...one.own, ...two.own].sort()).toEqual(one.sweep.runs.map((run) => run.folder).sort());
  for (const { folder, sweep, own } of [one, two]) {
    for (const run of own) ends(sweep, run, 'done');
    folder.write(sweep, own);
  }
  expect(readSweep(path).runs.map(({ state }) => state)).toEqual(Array(6).fill('done'));
  // The same slot twice, other slots, and the whole sweep have to wait.
  for (const slot of [{ k: 1, n: 2 }, { k: 1, n: 3 }, null])
    expect(() => sweepOf(path, slot, true)).toThrow(expect.objectContaining({ code: 'RUN_LOCKED' }));
  one.folder.close();
  two.folder.close();
  const whole = sweepOf(path, null, true);
  whole.folder.write(whole.sweep, whole.own);
  whole.folder.close();
  expect(existsSync(join(path, 'slots'))).toBe(false);
  expect(readSweep(path).runs.every(({ state }) => state === 'done')).toBe(true);
});

test('of two slots that knew a run, the later state counts', () => {
  const path = newPath();
  const [first] = planned().runs;
  for (const [n, state, at] of [
    [1, 'failed', '2026-01-01T00:00:05.000Z'],
    [3, 'done', '2026-01-02T00:00:00.000Z'],
  ] as const) {
    const k = [1, 2, 3].find((one) => inSlot({ k: one, n }, first!.hash))!;
    const { folder, sweep, own } = sweepOf(path, { k, n });
    ends(sweep, first!.folder, state, at);
    folder.write(sweep, own);
    folder.close();
  }
  expect(readSweep(path).runs[0]).toMatchObject({ state: 'done' });
});

test('every run has exactly one slot', () => {
  const { runs } = planned();
  for (const n of [1, 2, 3, 7])
    for (const { hash } of runs) {
      const slots = Array.from({ length: n }, (_, i) => ({ k: i + 1, n }));
      expect(slots.filter((slot) => inSlot(slot, hash))).toHaveLength(1);
    }
});

test.each([
  ['2/8', { k: 2, n: 8 }],
  ['', null],
  [undefined, null],
])('ACOER_SWEEP_SLOT=%s is %j', (text, slot) => {
  expect(slotOf({ ACOER_SWEEP_SLOT: text })).toEqual(slot);
});

test.each(['0/2', '3/2', '1', '1/0', 'a/b', '-1/2'])('ACOER_SWEEP_SLOT=%s is refused', (text) => {
  expect(() => slotOf({ ACOER_SWEEP_SLOT: text })).toThrow(/must be K\/N with K from 1 to N, such as 2\/8/);
});

describe('another file for the same folder', () => {
  const before = planned();
  const stored = mergedSweep({ ...before, slot: null, path: 'x' }, null, nothing);
  ends(stored, 'runs/run-s1', 'done');

  test('new runs are added, done ones stay, and what is gone stays if it has begun', () => {
    const more = planned('base: { preset: tiny }\ngrid: { seed: [2, 7] }');
    const begun = ({ state }: { state: string }): boolean => state === 'done';
    const merged = mergedSweep({ ...more, slot: null, path: 'x' }, stored, begun);
    expect(merged.runs.map((run) => [run.folder, run.state])).toEqual([
      ['runs/run-s2', 'waiting'],
      ['runs/run-s7', 'waiting'],
      ['runs/run-s1', 'done'],
    ]);
  });

  test('other settings of a run that has begun are refused, those of one that has not are taken', () => {
    const other = planned('base: { preset: tiny, maxSteps: 9 }\ngrid: { seed: [1] }');
    const options = { ...other, slot: null, path: 'x' };
    expect(() => mergedSweep(options, stored, () => true)).toThrow(
      /has other settings for runs\/run-s1 than x/,
    );
    const merged = mergedSweep(options, stored, nothing);
    expect(merged.runs).toEqual([expect.objectContaining({ folder: 'runs/run-s1', state: 'waiting' })]);
  });

  test('a done run whose folder was removed is made again', () => {
    const merged = mergedSweep({ ...before, slot: null, path: 'x' }, stored, nothing);
    expect(merged.runs[0]!.state).toBe('waiting');
  });
});

describe('the plan', () => {
  test.each([
    [
      { cores: 2, runs: 33, bytes: 0.5e9, asked: 'auto' as const },
      { parallel: 2, threads: 1 },
    ],
    [
      { cores: 8, runs: 33, bytes: 6e9, asked: 'auto' as const },
      { parallel: 3, threads: 2 },
    ],
    [
      { cores: 8, runs: 2, bytes: 0.5e9, asked: 'auto' as const },
      { parallel: 2, threads: 4 },
    ],
    [
      { cores: 8, runs: 33, bytes: 30e9, asked: 'auto' as const },
      { parallel: 1, threads: 8 },
    ],
    [
      { cores: 8, runs: 33, bytes: null, asked: 'auto' as const },
      { parallel: 1, threads: 8 },
    ],
    [
      { cores: 2, runs: 33, bytes: 0.5e9, asked: 3 },
      { parallel: 3, threads: 1 },
    ],
  ])('%j of 20 GB: %j', ({ cores, runs, bytes, asked }, expected) => {
    expect(together(cores, runs, 20e9, bytes, asked)).toEqual(expected);
  });

  const { runs } = planned();
  const needs: RunNeeds = { bytes: 1e9, hours: 0.5, stepSeconds: 2, shortage: null };
  const left = runs.map((run) => ({ run, needs }));

  test('predicted hours are shared by those that run at a time, and corrected by measured steps', () => {
    expect(hoursLeft(left, [], 2)).toBe(1.5);
    expect(hoursLeft(left, [{ method: 'run', stepSeconds: 1 }], 2)).toBe(0.75);
    expect(hoursLeft(left, [{ method: 'other', stepSeconds: 4 }], 2)).toBe(3);
  });

  test('without a prediction the steps alone are counted; without either nothing is known', () => {
    const unknown = runs.slice(0, 1).map((run) => ({ run, needs: null }));
    expect(hoursLeft(unknown, [{ method: 'run', stepSeconds: 18 }], 2)).toBe(1);
    expect(hoursLeft(unknown, [], 2)).toBeNull();
  });
});
