/** Run directories in comparable form: what is in their files, except timings, memory and the folder's name. */
import { cpSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { eventsOf } from './event-file';

const TIMED = /^((train\/)?step_time$|time\/|memory\/)/;

/** `value` without wall times, memory, checksums over them, and the run's own path. */
function untimed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(untimed);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([name]) => !TIMED.test(name) && name !== 'directory');
  return Object.fromEntries(entries.map(([name, inner]) => [name, untimed(inner)]));
}

function contentOf(path: string): unknown {
  const bytes = readFileSync(path);
  if (path.endsWith('.json')) return untimed(JSON.parse(bytes.toString()));
  if (path.endsWith('.jsonl')) {
    return bytes
      .toString()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => untimed(JSON.parse(line)));
  }
  return bytes.toString('base64');
}

/** The points of the run's event file without those that are times. */
const untimedEvents = (folder: string) =>
  eventsOf(folder).map(({ step, values }) => ({
    step,
    values: values.filter(({ tag }) => !TIMED.test(tag)),
  }));

/**
 * Content of every file in `folder` by relative path, except damaged checkpoints that were set aside, and what
 * the run was doing last. The event
 * file has a time in its name and counts as `tensorboard`.
 */
export function untimedFiles(folder: string): Map<string, unknown> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const compared = names.filter((name) => !/damaged-|SHA256SUMS$|tensorboard|^progress\.json$/.test(name));
  const files = compared.filter((name) => statSync(join(folder, name)).isFile());
  const contents = new Map(files.map((name) => [name, contentOf(join(folder, name))]));
  return names.includes('tensorboard') ? contents.set('tensorboard', untimedEvents(folder)) : contents;
}

/**
 * Copies the run in `folder` as its process would leave it if it died now. The lock is left out: that of a
 * dead process blocks nobody, but this process is still alive.
 */
export function copyAsCrashed(folder: string, copy: string): void {
  // A temporary file may get its name meanwhile.
  const filter = (path: string) => !basename(path).startsWith('.tmp-');
  cpSync(folder, copy, { recursive: true, filter });
  rmSync(join(copy, 'lock.json'));
}

/** A copy of a run as a kill after step k may have left it: later lines and tables, no later checkpoints. */
export function copyKilledAfter(whole: string, k: number, folder: string): string {
  cpSync(whole, folder, { recursive: true });
  rmSync(join(folder, 'summary.json'));
  rmSync(join(folder, 'final'), { recursive: true });
  for (const name of readdirSync(join(folder, 'checkpoints'))) {
    if (Number(name.slice('step-'.length)) > k)
      rmSync(join(folder, 'checkpoints', name), { recursive: true });
  }
  return folder;
}
