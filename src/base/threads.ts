/** How many threads may still be started: one that cannot be ends the process inside libgomp or V8, uncaught. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AcoerError } from './errors';
import { readTextSync } from './regular-file';

/** The content of a small file of the kernel; null where there is none. */
function kernelText(path: string): string | null {
  try {
    return readTextSync(path);
  } catch {
    // Another system, a process that has ended, or a kernel without the feature.
    return null;
  }
}

/** `max` and `unlimited` are Infinity; null without a number. */
function limitIn(text: string | null | undefined): number | null {
  if (text === null || text === undefined) return null;
  const word = text.trim();
  if (word === 'max' || word === 'unlimited') return Infinity;
  return /^\d+$/.test(word) ? Number(word) : null;
}

/** Threads of all processes of the user `uid`, which is what RLIMIT_NPROC counts. */
function threadsOf(uid: number): number {
  let threads = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    if (statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid !== uid) continue;
    threads += Number(/^Threads:\s*(\d+)/m.exec(kernelText(`/proc/${pid}/status`) ?? '')?.[1] ?? 0);
  }
  return threads;
}

function leftOfUser(): number {
  const uid = process.geteuid?.();
  const limits = kernelText('/proc/self/limits');
  // Root is exempt.
  if (uid === undefined || uid === 0 || limits === null) return Infinity;
  const limit = limitIn(/^Max processes\s+(\S+)/m.exec(limits)?.[1]) ?? Infinity;
  return limit === Infinity ? Infinity : limit - threadsOf(uid);
}

/** What pids.max leaves in this process's control group and those around it. */
function leftOfGroups(): number {
  let left = Infinity;
  for (const line of (kernelText('/proc/self/cgroup') ?? '').split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (path === undefined || (controllers !== '' && controllers !== 'pids')) continue;
    const root = join('/sys/fs/cgroup', controllers);
    for (let group = join(root, path); group.startsWith(root); group = join(group, '..')) {
      const max = limitIn(kernelText(join(group, 'pids.max')));
      const current = limitIn(kernelText(join(group, 'pids.current')));
      if (max !== null && current !== null) left = Math.min(left, max - current);
    }
  }
  return left;
}

/** Infinity without a limit, and on systems other than Linux. */
export const threadsLeft = (): number => Math.max(0, Math.min(leftOfUser(), leftOfGroups()));

/** What a call under a time limit (deadline.ts) may need: its own, and four that Node starts for files. */
export const TIMER_THREADS = 5;

/** @throws DEVICE when fewer than `count` threads may still be started; `what` needs them */
export function needThreads(count: number, what: string): void {
  const left = threadsLeft();
  if (left >= count) return;
  throw new AcoerError(
    'DEVICE',
    `${what} needs ${count} threads, but only ${left} more can be started here: use fewer, or raise the limit (ulimit -u, or pids.max of the control group).`,
  );
}
