/** A sink from a user's file, in its own thread, where neither a loop nor a stray error can end the run. */
import { openModuleThread, type ThreadSetup } from './module-thread';
import type { Sink, SinkCall, SinkSettings } from '../sink';

export interface SinkSetup extends ThreadSetup {
  run: { directory: string; config: SinkSettings };
}

export interface ToSink {
  call: SinkCall;
  given: readonly unknown[];
}

/** A sink whose thread can be ended. */
export interface ModuleSink {
  sink: Sink;
  end(): Promise<void>;
}

/**
 * The sink in `setup.path`, whose default export is a `SinkMaker`. It has the methods that the module's sink has.
 * @param timeoutMs for each call
 * @throws BAD_CONFIG when it cannot be loaded or makes no sink; INTERRUPTED when `signal` aborts meanwhile
 */
export async function openSinkModule(
  setup: SinkSetup,
  timeoutMs: number,
  signal?: AbortSignal,
): Promise<ModuleSink> {
  const options = { timeoutMs, signal };
  const { thread, first } = await openModuleThread<ToSink>('sink', 'sink-worker.js', setup, options);
  const methods = (first as SinkCall[]).map((call) => {
    const method = (...given: unknown[]) => thread.call({ call, given });
    return [call, method] as const;
  });
  return { sink: Object.fromEntries(methods), end: () => thread.close('sink') };
}
