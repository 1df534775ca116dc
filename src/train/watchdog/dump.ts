/** What is known of a run that hangs, from whichever thread can still tell. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Phase } from '../../config';
import { packageVersion } from '../../version';

export interface Hang {
  phase: Phase;
  /** The step being made, from 1; 0 before the first. */
  step: number;
  timeInPhaseMs: number;
  /** Since the last sign of progress. */
  silentMs: number;
  limitMs: number;
  /** Signs of progress in the phase: completions, micro-batches, problems, files. */
  progress: number;
  /** What was begun last. */
  note: string;
}

interface ThreadState {
  id: number;
  name: string;
  /** As in /proc: R runs, S sleeps, D waits for a disk or device. */
  state: string;
  cpuSeconds: number;
  /** The kernel's function it sleeps in, and the number of its system call, where the system tells. */
  sleepsIn: string;
  systemCall: string;
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // The thread ended meanwhile, or the system does not tell.
    return '';
  }
}

const TICKS_PER_SECOND = 100;

/** Every thread of this process with what it does; a hang in native code shows here. Empty where there is no /proc. */
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
    // Behind the name, which may hold anything, in brackets.
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
 * What both threads can tell. Not Node's own report: that waits for every thread to answer, and one that waits in a system
 * call never does.
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
  const last = note === '' ? '' : ` (last begun: ${note.slice(0, 120)})`;
  const dump = path === null ? 'its dump could not be written' : `what was running is in ${path}`;
  return `No progress in ${where} for ${minutes(silentMs)}${last}; ${dump}.`;
}
