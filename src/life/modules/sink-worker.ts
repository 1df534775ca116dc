/** The thread of a sink in `sinks`: answers calls of `sink-module.ts`. */
import { workerData } from 'node:worker_threads';
import { isRecord } from '../../base/json';
import { importDefault } from './import-default';
import { serveCalls } from './module-host';
import type { SinkSetup, ToSink } from './sink-module';
import { SINK_CALLS, type SinkMaker } from '../sink';

const { path, run } = workerData as SinkSetup;

void serveCalls<ToSink>(async () => {
  const maker = await importDefault(path);
  if (typeof maker !== 'function') {
    throw new Error('it has no function as its default export, which must make a sink');
  }
  const sink: unknown = await (maker as SinkMaker)(run as Parameters<SinkMaker>[0]);
  if (!isRecord(sink)) throw new Error('it made no sink: its function must return an object');
  const calls = sink as Record<string, (...given: readonly unknown[]) => unknown>;
  return {
    first: SINK_CALLS.filter((call) => typeof sink[call] === 'function'),
    // What a method returns is nobody's concern, and it may be something that cannot be copied.
    answer: async ({ call, given }) => void (await calls[call]!(...given)),
  };
});
