/** What a signal that asks to end is to a command, and to a server. */
import { interruptible, serving, untilAborted } from '../../src/cli/interrupt';

const ask = () => void process.emit('SIGTERM', 'SIGTERM');
const INTERRUPTED = { code: 'INTERRUPTED', message: 'interrupted' };

/** As a download or a load that is given up. */
async function cancelled(signal: AbortSignal): Promise<void> {
  ask();
  await untilAborted(signal);
  throw Object.assign(new Error('aborted'), { name: 'AbortError' });
}

async function returning(signal: AbortSignal): Promise<void> {
  ask();
  await untilAborted(signal);
}

async function failing(signal: AbortSignal): Promise<void> {
  await returning(signal);
  throw new Error('a failure of its own');
}

test('a command is interrupted, whether its work returns or is cancelled', async () => {
  await expect(interruptible(returning)).rejects.toMatchObject(INTERRUPTED);
  await expect(interruptible(cancelled)).rejects.toMatchObject(INTERRUPTED);
  await expect(interruptible(failing)).rejects.toThrow('a failure of its own');
});

test('a server is done once it serves, and interrupted before', async () => {
  await expect(serving(returning)).resolves.toBeUndefined();
  await expect(serving(cancelled)).rejects.toMatchObject(INTERRUPTED);
  await expect(serving(failing)).rejects.toThrow('a failure of its own');
});
