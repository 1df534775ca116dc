/** The inside of a thread of `module-thread.ts`: loads a user's module and answers calls. */
import { parentPort } from 'node:worker_threads';
import { pathToFileURL } from 'node:url';
import { errorMessage, whyUnreadable } from '../../base/errors';
import type { FromThread, ToThread } from './module-thread';
import { isRecord } from '../../base/json';
import { checkRegularFile } from '../../base/regular-file';

/** CommonJS and a compiler add one layer each. */
const MOST_LAYERS = 4;

/**
 * The default export of the user's module at `path`, without the layers that CommonJS and compilers add.
 * @throws Error for a default export that contains itself
 */
export async function importDefault(path: string): Promise<unknown> {
  await checkRegularFile(path).catch((cause: unknown) => {
    throw new Error(whyUnreadable(cause), { cause });
  });
  let found: unknown = await import(pathToFileURL(path).href);
  for (let layer = 0; isRecord(found) && found['default'] !== undefined; layer++) {
    if (layer === MOST_LAYERS)
      throw new Error('its default export has a default of its own, and so on without end');
    found = found['default'];
  }
  return found;
}

export interface Host<Message> {
  /** What goes with `ready`. */
  first: unknown;
  answer(message: Message): unknown;
}

/** @param open loads the module; what it throws is why the module cannot be used */
export async function serveCalls<Message>(open: () => Promise<Host<Message>>): Promise<void> {
  const port = parentPort!;
  const post = (message: FromThread) => port.postMessage(message);
  try {
    const host = await open();
    /** Posts `running` before the user's code runs, and `waiting` once it has returned a promise. */
    const answer = async (id: number, message: Message): Promise<void> => {
      try {
        post({ type: 'running', id });
        const work = host.answer(message);
        post({ type: 'waiting', id });
        post({ type: 'done', id, value: await work });
      } catch (error) {
        post({ type: 'failed', id, message: errorMessage(error) });
      }
    };
    port.on('message', ({ id, message }: ToThread<Message>) => {
      if (id === null) host.answer(message);
      else void answer(id, message);
    });
    post({ type: 'ready', value: host.first });
  } catch (error) {
    post({ type: 'unloadable', message: errorMessage(error) });
  }
}
