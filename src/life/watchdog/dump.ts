/** What is known about a hung run, from whichever thread can still report it. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Phase } from '../../config';
import { readTextSync } from '../../base/regular-file';
import { packageVersion } from '../../base/version';

export interface Hang {
  phase: Phase;
  /** The step in progress, from 1; 0 before the first. */
  step: number;
  timeInPhaseMs: number;
  /** Since the last sign of progress. */
  silentMs: number;
  limitMs: number;
  /** Number of signs of progress in the phase: completions, micro-batches, problems, files. */
  progress: number;
  /** What was started last. */
  note: string;
}

interface ThreadState {
  id: number;
  name: string;
  /** As in /proc: R running, S sleeping, D waiting for a disk or device. */
  state: string;
  cpuSeconds: number;
  /** The kernel function it sleeps in and the number of its system call; empty if the system does not say. */
  sleepsIn: string;
  systemCall: string;
}

function read(path: string): string {
  try {
    return readTextSync(path).trim();
  } catch {
    // The thread has ended meanwhile, or the system does not say.
    return '';
  }
}

const TICKS_PER_SECOND = 100;

/** What every thread of this process is doing, native code included. Empty where there is no /proc. */
function threads(): ThreadState[] {
  const tasks = '/proc/self/task';
  let ids: string[];
  try {
    ids = readdirSync(tasks);
  } catch {
    return [];
  }
  return ids.map((id) => {
    const of = (name: string) => read(join(tasks, id, name));
    // The fields follow the name, which is in brackets and may contain anything.
    const stat = of('stat')
      .replace(/^.*\) /s, '')
      .split(' ');
    const cpuSeconds = (Number(stat[11]) + Number(stat[12])) / TICKS_PER_SECOND;
    const systemCall = of('syscall').split(' ')[0]!;
    return {
      id: Number(id),
      name: of('comm'),
      state: stat[0]!,
      cpuSeconds,
      sleepsIn: of('wchan'),
      systemCall,
    };
  });
}

/**
 * What either thread can report. Node's own report would not do: it waits for every thread to answer, and a
 * thread in a system call never does.
 */
export function hangReport(hang: Hang): Record<string, unknown> {
  return {
    ...hang,
    time: new Date().toISOString(),
    versions: { acoer: packageVersion(), ...process.versions },
    memory: process.memoryUsage(),
    resources: process.resourceUsage(),
    activeResources: process.getActiveResourcesInfo(),
    threads: threads(),
  };
}

const minutes = (ms: number) =>
  ms < 90_000 ? `${Math.round(ms / 100) / 10} s` : `${Math.round(ms / 60_000)} min`;

/** The hang in one sentence. @param path null: the dump could not be written */
export function hangSentence({ phase, step, silentMs, note }: Hang, path: string | null): string {
  const where = step === 0 ? phase : `${phase} of step ${step}`;
  const last = note === '' ? '' : ` (last started: ${note.slice(0, 120)})`;
  const dump = path === null ? 'the dump could not be written' : `what was running is in ${path}`;
  return `No progress in ${where} for ${minutes(silentMs)}${last}; ${dump}.`;
}
