/**
 * A command that another command of ours has started: it ends when that one is gone, and tells it what only it knows,
 * over the channel that Node opens to a child.
 */
import { errorCode, errorMessage } from './errors';

const STARTED = 'ACOER_CHILD';

/** What a process needs in its environment, beside the channel, to be such a child. */
export const CHILD_ENVIRONMENT: Readonly<Record<string, string>> = { [STARTED]: '1' };

/** What a child has told of itself. */
export interface Told {
  /** Its run's folder. */
  run?: unknown;
  /** The code of the error that it ends with. */
  failed?: unknown;
  /** That error's sentence. */
  message?: unknown;
}

const isChild = process.env[STARTED] === '1';
// What this process starts itself has another parent.
delete process.env[STARTED];

/** In a child: ends it, with a checkpoint, when the process that started it is gone. */
export function endWithParent(): void {
  if (!isChild) return;
  const end = (): void => void process.kill(process.pid, 'SIGTERM');
  // It may have gone while this process loaded its modules.
  if (!process.connected) return end();
  process.once('disconnect', end);
  process.channel?.unref();
}

function tell(told: Told): void {
  if (!isChild || !process.connected) return;
  // The parent may be gone in the same moment.
  process.send?.(told, undefined, undefined, () => undefined);
}

/** In a child: tells where the run is. */
export const tellFolder = (run: string): void => tell({ run });

/** In a child: tells what it ends with. */
export const tellFailure = (error: unknown): void =>
  tell({ failed: errorCode(error), message: errorMessage(error) });
