/** The process started by `watchBeside`: serves until the process of the run is gone. */
import { errorMessage } from '../errors';
import { leaveSignalsToParent } from '../signals';
import type { FromServer } from './beside';
import { startWatch } from './server';

const tell = (message: FromServer): void => void process.send?.(message);

async function serve(run: string): Promise<void> {
  // The run needs a while to end, and is shown until then.
  leaveSignalsToParent();
  const gone = new Promise<void>((resolve) => process.once('disconnect', resolve));
  try {
    const server = await startWatch({ path: run });
    tell({ address: server.address });
    await gone;
    await server.close();
  } catch (error) {
    if (process.connected) tell({ problem: errorMessage(error) });
  }
  process.exit();
}

void serve(process.argv[2]!);
