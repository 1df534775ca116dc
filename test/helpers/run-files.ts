/** Run directories as something to compare: every file but for what measures time, memory or names the folder. */
import { cpSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

const TIMED = /^(step_time$|time\/|memory\/)/;

/** Without wall times, memory, checksums over them, and the run's own path. */
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

/** Content of every file in `folder` by its path there; damaged checkpoints set aside are left out. */
export function untimedFiles(folder: string): Map<string, unknown> {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
  const compared = names.filter((name) => !name.includes('damaged-') && !name.endsWith('SHA256SUMS'));
  const files = compared.filter((name) => statSync(join(folder, name)).isFile());
  return new Map(files.map((name) => [name, contentOf(join(folder, name))]));
}

/**
 * The run in `folder` as its process would leave it if it died now. The lock of a process that died holds nobody up; this
 * one goes on, so it is left out.
 */
export function copyAsCrashed(folder: string, copy: string): void {
  cpSync(folder, copy, { recursive: true });
  rmSync(join(copy, 'lock.json'));
}
