/** The runs in a folder: found, listed and followed as they appear, grow and vanish. */
import { createHash } from 'node:crypto';
import { existsSync, realpathSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { badInput, errorMessage } from '../base/errors';
import { Pace } from '../base/pace';
import { RunDirectory } from '../run';
import { insidePath } from '../http';
import { OpenedRun } from './opened-run';
import { isRun, RunOverview } from './overview';
import type { RunEntry } from './wire';

const MOST_RUNS = 500;
/** Opened runs whose lines are kept in memory, about 2 MB for 5,000 steps. */
const MOST_OPENED = 12;

interface ListedRun {
  overview: RunOverview;
  entry: RunEntry;
  text: string;
  /** Raised whenever the entry changes. */
  version: number;
}

export class Runs {
  /** The real path of what is served. */
  readonly root: string;
  /** Whether that is a run rather than a folder of runs. */
  readonly single: boolean;
  private readonly listed = new Map<string, ListedRun>();
  private readonly opened = new Map<string, OpenedRun>();
  private refreshing: Promise<void> | null = null;
  /** Sentences about the folder. */
  notes: string[] = [];

  /** @param path a run, a folder of runs or of a sweep @throws BAD_INPUT if it is no folder */
  constructor(path: string) {
    if (!existsSync(path)) {
      throw badInput(`There is no folder ${path}: name a run or a folder of runs.`);
    }
    if (!statSync(path).isDirectory()) {
      throw badInput(`${path} is a file: name a run or a folder of runs.`);
    }
    this.root = realpathSync(runsFolder(path));
    this.single = isRun(new RunDirectory(this.root));
  }

  get ids(): string[] {
    return [...this.listed.keys()];
  }

  entry(id: string): { entry: RunEntry; version: number } | null {
    return this.listed.get(id) ?? null;
  }

  /** Looks for runs, and reads what the list shows of each. */
  refresh(): Promise<void> {
    this.refreshing ??= this.read().finally(() => (this.refreshing = null));
    return this.refreshing;
  }

  private async read(): Promise<void> {
    const paths = await this.find();
    const pace = new Pace();
    for (const [id, { overview }] of this.listed) {
      if (paths.has(overview.run.path)) continue;
      this.listed.delete(id);
      this.opened.delete(id);
    }
    for (const path of paths) {
      const id = createHash('sha256').update(path).digest('hex').slice(0, 16);
      const before = this.listed.get(id);
      const overview = before?.overview ?? new RunOverview(id, new RunDirectory(path));
      const entry = await overview.refresh(pace);
      const text = JSON.stringify(entry);
      if (text === before?.text) continue;
      this.listed.set(id, { overview, entry, text, version: (before?.version ?? 0) + 1 });
    }
  }

  private async find(): Promise<Set<string>> {
    if (this.single) return new Set(existsSync(this.root) ? [this.root] : []);
    const notes: string[] = [];
    const found = new Set<string>();
    let names: string[] = [];
    try {
      names = (await readdir(this.root)).sort();
    } catch (error) {
      notes.push(`The folder cannot be read: ${errorMessage(error)}`);
    }
    const pace = new Pace();
    for (const name of names) {
      await pace.turn();
      const path = join(this.root, name);
      if (!isRunOrUnreadable(path)) continue;
      const real = await insidePath(this.root, path);
      if (real === null) notes.push(`${name} is a link that leads out of this folder; it is not shown.`);
      else if (found.size < MOST_RUNS) found.add(real);
      else notes.push(`Only the first ${MOST_RUNS} runs are shown.`);
    }
    this.notes = [...new Set(notes)];
    return found;
  }

  /** A run with all its lines, up to date; null: there is no such run. */
  async open(id: string): Promise<OpenedRun | null> {
    const listed = this.listed.get(id);
    if (listed === undefined) return null;
    const known = this.opened.get(id);
    const run = known ?? new OpenedRun(id, listed.overview.run);
    // The one used last is the last to be dropped.
    this.opened.delete(id);
    this.opened.set(id, run);
    const oldest = this.opened.keys().next().value;
    if (this.opened.size > MOST_OPENED && oldest !== undefined) this.opened.delete(oldest);
    await run.poll();
    return run;
  }

  /** A run that `open` has read. */
  openedRun(id: string): OpenedRun | null {
    return this.opened.get(id) ?? null;
  }
}

/** The folder of runs in the folder of a sweep (`acoer sweep`), else `path` itself. */
function runsFolder(path: string): string {
  const runs = join(path, 'runs');
  return existsSync(join(path, 'sweep.json')) && existsSync(runs) ? runs : path;
}

function isRunOrUnreadable(path: string): boolean {
  try {
    return isRun(new RunDirectory(path));
  } catch {
    return false;
  }
}
