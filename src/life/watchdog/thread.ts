/**
 * The watchdog's thread. The run's thread keeps a heartbeat in shared memory; if there is none for as long as
 * the phase may be silent, the run's thread is blocked, and this one writes the dump.
 */
import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import { exitFromThread } from '../../engine/exit';
import { writeJsonAtomic } from '../../run/atomic';
import { RunDirectory } from '../../run/directory';
import { hangReport, hangSentence, type Hang } from './dump';
import type { AboutRun, SentinelMessage, SentinelSetup } from './sentinel';
import { clockMs, SharedState } from './shared';

const setup = workerData as SentinelSetup;
const port = parentPort!;
const shared = new SharedState(setup.buffer);
const directory = setup.directory === null ? null : new RunDirectory(setup.directory);
const STACK_MS = 2_000;

let about: AboutRun = { engine: null };
port.on('message', (message: AboutRun) => (about = message));

interface CallFrame {
  functionName: string;
  location: { scriptId: string; lineNumber: number };
}

interface Script {
  scriptId: string;
  url: string;
}

/** The JavaScript stack of the run's thread; null when it is in a system call or native code. */
function mainStack(): Promise<string[] | null> {
  return new Promise((resolve) => {
    const session = new Session();
    const end = (stack: string[] | null) => {
      clearTimeout(timer);
      session.disconnect();
      resolve(stack);
    };
    const timer = setTimeout(() => end(null), STACK_MS);
    session.connectToMainThread();
    const urls = new Map<string, string>();
    session.on('Debugger.scriptParsed', ({ params }: { params: Script }) =>
      urls.set(params.scriptId, params.url),
    );
    session.on('Debugger.paused', ({ params }: { params: { callFrames: CallFrame[] } }) => {
      const stack = params.callFrames.map(
        ({ functionName, location }) =>
          `${functionName || '(anonymous)'} ${urls.get(location.scriptId) ?? ''}:${location.lineNumber + 1}`,
      );
      session.post('Debugger.resume', () => end(stack));
    });
    // After the time limit the session is disconnected, and this is called with an error.
    session.post('Debugger.enable', (error) => {
      if (error === null) session.post('Debugger.pause');
    });
  });
}

function write(hang: Hang, stack: string[] | null): string | null {
  if (directory === null) return null;
  const path = directory.hang(hang.step, hang.phase);
  try {
    writeJsonAtomic(path, { ...hangReport(hang), ...about, mainThread: 'blocked', mainStack: stack });
    return path;
  } catch {
    // The message already says so.
    return null;
  }
}

async function fire(blockedMs: number): Promise<void> {
  const { phase, step, timeInPhaseMs, limitMs, progress, note, beats } = shared.read();
  if (phase === null) return;
  const hang: Hang = { phase, step, timeInPhaseMs, silentMs: blockedMs, limitMs, progress, note };
  const stack = await mainStack().catch(() => null);
  const path = write(hang, stack);
  if (setup.kill && shared.read().beats === beats) {
    const why = 'The main thread is blocked, so the process was ended';
    // A live view may have left the cursor within a line.
    writeSync(
      2,
      `${isatty(2) ? '\n' : ''}acoer: ${hangSentence(hang, path)} ${why}; resume with: ${setup.resume}\n`,
    );
    exitFromThread(1);
  }
  port.postMessage({ hang, path } satisfies SentinelMessage);
}

let lastMs = clockMs();
let { beats } = shared.read();
let blockedMs = 0;
let fired = false;

setInterval(() => {
  const now = clockMs();
  const elapsedMs = Math.min(now - lastMs, 2 * setup.tickMs);
  lastMs = now;
  const seen = shared.read();
  if (seen.beats !== beats || seen.phase === null || seen.debugged) {
    beats = seen.beats;
    blockedMs = 0;
    fired = false;
    return;
  }
  blockedMs += elapsedMs;
  if (fired || blockedMs < seen.limitMs) return;
  fired = true;
  void fire(blockedMs);
}, setup.tickMs);
