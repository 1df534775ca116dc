/** Ends a thread that runs a user's code, even if it waits in a system call and cannot be interrupted. */
import { isMainThread, type Worker } from 'node:worker_threads';
import { awakeTimer } from '../../base/deadline';
import { exitFromThread } from '../../engine/exit';

/** A thread that can be ended ends within milliseconds. */
const END_MS = 2_000;

/**
 * However a process ends, Node waits for every thread: for one in a system call, say waiting for a child
 * process, as long as the call takes. This makes the process end without waiting.
 */
function endProcessWithout(worker: Worker): void {
  const endNow = (code: number): void => {
    try {
      exitFromThread(code);
    } catch {
      // Without the addon this is the only way, and the exit code is lost.
      process.kill(process.pid, 'SIGKILL');
    }
  };
  // In a thread of another program, the process is not ours to end.
  if (isMainThread) process.once('exit', endNow);
  worker.once('exit', () => process.off('exit', endNow));
}

/**
 * Ends the thread. One that does not end within 2 s is left behind: it holds up neither the caller nor the
 * end of the process.
 */
export async function endThread(worker: Worker): Promise<void> {
  const left = await new Promise<boolean>((resolve) => {
    const cancel = awakeTimer(END_MS, () => resolve(true));
    void worker.terminate().then(() => {
      cancel();
      resolve(false);
    });
  });
  if (!left) return;
  worker.unref();
  // Node's event loop also waits for the thread's output to end.
  for (const output of [worker.stdout, worker.stderr]) output.push(null);
  endProcessWithout(worker);
}
