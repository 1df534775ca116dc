/** The inside of a thread of `module-thread.ts`: loads a user's module and answers calls. */
import { parentPort } from 'node:worker_threads';
import { errorMessage } from '../../base/errors';
import type { Call, FromThread } from './module-thread';

export interface Host<Message> {
  /** What goes with `ready`. */
  first: unknown;
  /** Answers a call. */
  answer(call: Extract<Message, Call>): unknown;
  /** Takes a message that is no call. */
  take?(message: Exclude<Message, Call>): void;
}

const isCall = <Message>(message: Message): message is Extract<Message, Call> =>
  typeof (message as Partial<Call>).id === 'number';

/** @param open loads the module; what it throws is why the module cannot be used */
export async function serveCalls<Message>(open: () => Promise<Host<Message>>): Promise<void> {
  const port = parentPort!;
  const post = (message: FromThread) => port.postMessage(message);
  try {
    const host = await open();
    /** Posts `running` before the user's code runs, and `waiting` once it has returned a promise. */
    const answer = async (call: Extract<Message, Call>): Promise<void> => {
      const { id } = call as Call;
      try {
        post({ type: 'running', id });
        const work = host.answer(call);
        post({ type: 'waiting', id });
        post({ type: 'done', id, value: await work });
      } catch (error) {
        post({ type: 'failed', id, message: errorMessage(error) });
      }
    };
    port.on('message', (message: Message) => {
      if (isCall(message)) void answer(message);
      else host.take?.(message as Exclude<Message, Call>);
    });
    post({ type: 'ready', value: host.first });
  } catch (error) {
    post({ type: 'unloadable', message: errorMessage(error) });
  }
}
