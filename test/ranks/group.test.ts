/** When a process counts as waiting for others, and how it takes leave. */
import type { Beats } from '../../src/ranks/beats';
import { GlooGroup } from '../../src/ranks/group';
import { Joined } from '../../src/ranks/join';
import type { Launch } from '../../src/ranks/launch';
import type { NativeGroup } from '../../src/ranks/native';

test('a process that works during a collective does not wait until its work has ended', async () => {
  let answer: (bytes: Uint8Array[]) => void = () => undefined;
  const gather = (own: Uint8Array) => {
    return new Promise<Uint8Array[]>((resolve) => (answer = () => resolve([own, own])));
  };
  const native = { gather } as unknown as NativeGroup;
  const { signal } = new AbortController();
  const group = new GlooGroup(0, 2, native, signal, (error) => Promise.resolve(error as Error));
  expect(group.waits).toBe(false);
  let works = true;
  const beside = group.allGather('a', () => works);
  expect(group.waits).toBe(false);
  works = false;
  expect(group.waits).toBe(true);
  answer([]);
  expect(await beside).toEqual(['a', 'a']);
  expect(group.waits).toBe(false);
  const plain = group.allGather('b');
  expect(group.waits).toBe(true);
  answer([]);
  await plain;
  expect(group.waits).toBe(false);
});

test('a process takes leave although its neighbour has gone already', async () => {
  const closed: string[] = [];
  const part = () => Promise.reject(new Error('Connection closed by peer'));
  const native = { part, close: () => closed.push('group') } as unknown as NativeGroup;
  const beats = { close: () => closed.push('beats') } as unknown as Beats;
  await new Joined({} as Launch, [], beats, {} as GlooGroup, native).part();
  expect(closed).toEqual(['beats', 'group']);
});
