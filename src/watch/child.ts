/** The process started by `watchBeside`: serves until the process of the run is gone. */
import { setTimeout as sleep } from 'node:timers/promises';
import { errorMessage } from '../base/errors';
import { lockState } from '../run/lock';
import { leaveSignalsToParent } from '../base/signals';
import type { FromServer } from './beside';
import { startWatch } from './server';

const tell = (message: FromServer): void => void process.send?.(message);

/** How long a lock is waited for, in case another process has it by now. */
const LOCK_MS = 2_000;

/** The kernel closes the files of a killed process one by one: its lock may outlive the channel to here. */
async function unlocked(run: string): Promise<void> {
  const end = performance.now() + LOCK_MS;
  while (lockState(run) === 'held' && performance.now() < end) await sleep(20);
}

async function serve(run: string): Promise<void> {
  // The run needs a while to end, and is shown until then.
  leaveSignalsToParent();
  const gone = new Promise<void>((resolve) => process.once('disconnect', resolve));
  try {
    const server = await startWatch({ path: run });
    tell({ address: server.address });
    await gone;
    await unlocked(run);
    await server.close();
  } catch (error) {
    if (process.connected) tell({ problem: errorMessage(error) });
  }
  process.exit();
}

void serve(process.argv[2]!);
