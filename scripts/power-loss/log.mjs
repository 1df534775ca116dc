/** Recording what a program does to a folder, and reading the record (record.c). */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * One call that changed something. Paths are relative to the folder.
 * - create, truncate (to `number` bytes), write (at `number`): a file's content
 * - rename, link (from `path` to `other`), remove, mkdir: names
 * - sync: a file's content or a folder's names are on disk
 * - mark: `path` is what the program said
 * @typedef {{op: string, number: number, path: string, other: string, data: Buffer}} Call
 */

/** Compiles the shim. @param {string} folder where the library goes @returns {string} its path */
export function compileRecorder(folder) {
  const library = join(folder, 'record.so');
  const source = join(import.meta.dirname, 'record.c');
  const words = [
    '-O2',
    '-Wall',
    '-Wextra',
    '-Werror',
    '-shared',
    '-fPIC',
    '-o',
    library,
    source,
    '-ldl',
    '-lpthread',
  ];
  const { status, stderr, error } = spawnSync(process.env.CC ?? 'cc', words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`The C compiler failed: ${error?.message ?? stderr}`);
  return library;
}

/** The environment under which a program is recorded. */
export const recordedEnv = (library, root, log) => ({
  ...process.env,
  LD_PRELOAD: library,
  POWER_LOSS_ROOT: root,
  POWER_LOSS_LOG: log,
  // Files written through a ring would not be seen.
  UV_USE_IO_URING: '0',
});

/** @returns {Call[]} the calls in the log at `file` */
export function readLog(file, root) {
  if (!existsSync(file)) return [];
  const bytes = readFileSync(file);
  const calls = [];
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf(0x0a, at);
    const [op, ...numbers] = bytes.toString('latin1', at, end).split(' ');
    const [number, pathBytes, otherBytes, dataBytes] = numbers.map(Number);
    let from = end + 1;
    const take = (length) => bytes.subarray(from, (from += length));
    const inside = (path) => (op === 'mark' ? path : path.slice(root.length + 1));
    const path = inside(take(pathBytes).toString());
    const other = inside(take(otherBytes).toString());
    if (op === 'foreign') throw new Error(`The recorder saw a call that it does not know: ${path} ${other}`);
    calls.push({ op, number, path, other, data: take(dataBytes) });
    at = from;
  }
  return calls;
}
