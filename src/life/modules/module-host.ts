/** The inside of a thread of `module-thread.ts`: loads a user's module and answers calls. */
import { parentPort } from 'node:worker_threads';
import { errorMessage } from '../../base/errors';
import type { FromThread, ToThread } from './module-thread';

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
