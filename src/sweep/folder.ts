/**
 * The files of a sweep: sweep.json with its runs and their states, and the ordinary folders of those runs. One process
 * writes sweep.json, under the lock of the folder. Where a Slurm array shares a sweep, each of its tasks writes the states
 * of its own runs in `slots/K-of-N/states.json`, under the lock of that folder, and sweep.json stays as it was made: no file
 * has two writers, so no update can be lost.
 */
import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { AcoerError, badInput, badUsage } from '../base/errors';
import { makeFolders } from '../base/folders';
import { checked, readJsonFile, removeDirectoryAtomic, removeTemporaries, writeJsonAtomic } from '../run';
import { lockState, RunLock } from '../run/lock';

const SWEEP_FILE = 'sweep.json';
const STATES_FILE = 'states.json';
const SLOTS = 'slots';
/** Where the runs of a sweep are. */
export const RUNS = 'runs';

/** What may stand in the name of a run's folder. */
export const NAME_CHARACTERS = 'A-Za-z0-9._+=-';
const FOLDER = new RegExp(`^${RUNS}/[A-Za-z0-9][${NAME_CHARACTERS}]*$`);

const RUN_STATES = ['waiting', 'running', 'done', 'failed', 'skipped'] as const;
export type SweepRunState = (typeof RUN_STATES)[number];

const time = z.iso.datetime().nullable();

const STATE = z.object({
  folder: z.string().regex(FOLDER, `must be ${RUNS}/NAME`),
  /** `skipped`: not started, because too many others had failed. */
  state: z.enum(RUN_STATES),
  exitCode: z.int().nullable(),
  startedAt: time,
  endedAt: time,
  /** The run's guard ended it, or found a collapse. */
  collapsed: z.boolean(),
  /** Why it failed or waits, in one sentence. */
  message: z.string().nullable(),
});

const RUN = STATE.extend({
  /** The run's name, with its point of the grid but for the seed. */
  method: z.string(),
  seed: z.int(),
  point: z.record(z.string(), z.unknown()),
  /** Everything over the preset, as `acoer train` gets it. */
  settings: z.record(z.string(), z.unknown()),
  /** SHA-256 of the resolved configuration. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
});

export const SWEEP = z.object({
  version: z.literal(1),
  name: z.string(),
  made: z.iso.datetime(),
  /** Which final evaluation is the metric. */
  evaluation: z.object({ kind: z.enum(['sampled', 'greedy']) }),
  /** With `overlay`: the settings that were taken from the methods' files. */
  taken: z.array(z.string()).nullable(),
  runs: z.array(RUN),
});

export type Sweep = z.infer<typeof SWEEP>;
export type SweepRun = Sweep['runs'][number];
type StoredState = z.infer<typeof STATE>;

const STATES = z.object({ version: z.literal(1), runs: z.array(STATE) });

/** The part `k` of `n` of a sweep, from 1. */
export interface Slot {
  k: number;
  n: number;
}

const slotFolder = (path: string, { k, n }: Slot): string => join(path, SLOTS, `${k}-of-${n}`);

/** Whether `path` is the folder of a sweep. */
export const isSweep = (path: string): boolean =>
  lstatSync(join(path, SWEEP_FILE), { throwIfNoEntry: false })?.isFile() === true;

/** The folder of one of the sweep's runs. */
export const runPath = (sweepPath: string, run: Pick<SweepRun, 'folder'>): string =>
  join(sweepPath, run.folder);

/** The folders of all slots that have written states. */
function slotFolders(path: string): string[] {
  const folder = join(path, SLOTS);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => /^\d+-of-\d+$/.test(name))
    .sort()
    .map((name) => join(folder, name));
}

/** When a state was last changed; texts of ISO times sort as times. */
const changedAt = ({ startedAt, endedAt }: StoredState): string => endedAt ?? startedAt ?? '';

/** A sweep with its runs' newest states. @throws BAD_INPUT if `path` has none, or a damaged one */
export function readSweep(path: string): Sweep {
  if (!isSweep(path)) throw badInput(`${path} is not the folder of a sweep: it has no ${SWEEP_FILE}.`);
  const file = join(path, SWEEP_FILE);
  const sweep = checked(SWEEP, file, readJsonFile(file));
  const newest = new Map<string, StoredState>(sweep.runs.map((run) => [run.folder, run]));
  for (const folder of slotFolders(path)) {
    const states = join(folder, STATES_FILE);
    if (!existsSync(states)) continue;
    for (const state of checked(STATES, states, readJsonFile(states)).runs) {
      const before = newest.get(state.folder);
      if (before !== undefined && changedAt(state) >= changedAt(before)) newest.set(state.folder, state);
    }
  }
  return { ...sweep, runs: sweep.runs.map((run) => ({ ...run, ...newest.get(run.folder) })) };
}

/** The only writer of a sweep's states, or of those of one slot. */
export class SweepFolder {
  private constructor(
    readonly path: string,
    private readonly slot: Slot | null,
    private readonly lock: RunLock,
    /** What was there before; null: the sweep is new. */
    readonly stored: Sweep | null,
  ) {}

  /**
   * @param resume whether a sweep that is there already may be continued
   * @throws RUN_EXISTS, RUN_LOCKED, BAD_INPUT
   */
  static open(path: string, resume: boolean, slot: Slot | null = null): SweepFolder {
    const own = slot === null ? path : slotFolder(path, slot);
    const begun = slot === null ? isSweep(path) : existsSync(join(own, STATES_FILE));
    if (begun && !resume) {
      throw new AcoerError(
        'RUN_EXISTS',
        `${path} already contains a sweep; continue it with --resume, or choose another folder (--out).`,
      );
    }
    makeFolders(join(path, RUNS));
    makeFolders(own);
    const lock = RunLock.acquire(own);
    try {
      for (const folder of new Set([path, own])) removeTemporaries(folder, slot === null ? '' : STATES_FILE);
      refuseOthers(path, slot);
      return new SweepFolder(path, slot, lock, isSweep(path) ? readSweep(path) : null);
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  /** Writes what has changed; of a slot, the states of its own runs. @param own folders of the slot's runs */
  write(sweep: Sweep, own: ReadonlySet<string>): void {
    this.lock.assertHeld();
    const file = join(this.path, SWEEP_FILE);
    if (this.slot === null) {
      writeJsonAtomic(file, sweep);
      // Their states are in sweep.json now.
      const folder = join(this.path, SLOTS);
      if (existsSync(folder)) removeDirectoryAtomic(folder);
      return;
    }
    // All slots write the same.
    if (!isSweep(this.path)) writeJsonAtomic(file, { ...sweep, runs: sweep.runs.map(unbegun) });
    const runs = sweep.runs.filter(({ folder }) => own.has(folder)).map((run) => STATE.parse(run));
    writeJsonAtomic(join(slotFolder(this.path, this.slot), STATES_FILE), { version: 1, runs });
  }

  close(): void {
    this.lock.release();
  }
}

/** A run's state before it is started. */
export const unbegun = <Run extends object>(run: Run): Run & Omit<StoredState, 'folder'> => ({
  ...run,
  state: 'waiting',
  exitCode: null,
  startedAt: null,
  endedAt: null,
  collapsed: false,
  message: null,
});

/** A whole sweep and its slots exclude each other. @throws RUN_LOCKED */
function refuseOthers(path: string, slot: Slot | null): void {
  const others =
    slot === null
      ? slotFolders(path)
      : [path, ...slotFolders(path).filter((one) => !one.endsWith(`-of-${slot.n}`))];
  const held = others.find((folder) => lockState(folder) === 'held');
  if (held === undefined) return;
  throw new AcoerError(
    'RUN_LOCKED',
    `Another acoer sweep is working in ${held}: wait for it to end, or stop it.`,
  );
}

/** `ACOER_SWEEP_SLOT`: `K/N`; null: not set. @throws BAD_CONFIG */
export function slotOf(env: NodeJS.ProcessEnv): Slot | null {
  const text = env['ACOER_SWEEP_SLOT'];
  if (text === undefined || text === '') return null;
  const [, k, n] = /^(\d{1,6})\/(\d{1,6})$/.exec(text)?.map(Number) ?? [];
  if (k !== undefined && n !== undefined && k >= 1 && k <= n) return { k, n };
  throw badUsage(
    `ACOER_SWEEP_SLOT must be K/N with K from 1 to N, such as 2/8, not ${JSON.stringify(text.slice(0, 40))}.`,
  );
}

/** Whether the slot has a run, by the run's hash: every run has exactly one of `n` slots. */
export const inSlot = (slot: Slot | null, hash: string): boolean =>
  slot === null || Number(BigInt(`0x${hash.slice(0, 15)}`) % BigInt(slot.n)) === slot.k - 1;
