/** What Linux tells of processes. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** The process of a rank that `parent` has started. */
export function pidOfRank(parent: number, rank: number): number {
  const found = readdirSync('/proc').find((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const [, ppid] = /\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!;
      const env = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      return Number(ppid) === parent && env.includes(`RANK=${rank}`);
    } catch {
      // It has ended meanwhile, or is not ours.
      return false;
    }
  });
  if (found === undefined) throw new Error(`No process of ${parent} is rank ${rank}.`);
  return Number(found);
}

/** Addresses, as /proc/net writes them, on which a process listens. */
export function listensOn(pid: number): string[] {
  const sockets = new Set<string>();
  for (const fd of readdirSync(`/proc/${pid}/fd`)) {
    try {
      sockets.add(readlinkSync(`/proc/${pid}/fd/${fd}`));
    } catch {
      // Closed meanwhile.
    }
  }
  const LISTENS = '0A';
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((cells) => cells[3] === LISTENS && sockets.has(`socket:[${cells[9]}]`))
      .map((cells) => cells[1]!.split(':')[0]!),
  );
}
