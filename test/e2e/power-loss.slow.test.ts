/** A small part of scripts/power-loss.mjs, and what its model of a disk lets a power loss do. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { builtCli, ROOT } from '../helpers/cli';

jest.setTimeout(900_000);

interface Call {
  op: string;
  number: number;
  path: string;
  other: string;
  data: Buffer;
}
type Tree = Map<string, { key: string; content: (() => Buffer) | null }>;
interface Model {
  Disk: new () => { apply(call: Call): void; whole(path?: string): Tree };
}
interface States {
  crashStates: (disk: object, path: string, count: number, random: () => number) => Iterable<{ tree: Tree }>;
}

const tool = (name: string) => join(ROOT, 'scripts', 'power-loss', name);
const call = (op: string, path: string, more: Partial<Call> = {}): Call => ({
  op,
  path,
  number: 0,
  other: '',
  data: Buffer.alloc(0),
  ...more,
});
const written = (path: string, text: string, at = 0) =>
  call('write', path, { number: at, data: Buffer.from(text) });

/** Each state after `calls`, as its files with their contents; folders as `/`. */
async function statesAfter(calls: readonly Call[]): Promise<Record<string, string>[]> {
  const { Disk } = (await import(tool('disk.mjs'))) as Model;
  const { crashStates } = (await import(tool('states.mjs'))) as States;
  const disk = new Disk();
  for (const one of [call('mkdir', 'run'), call('sync', ''), ...calls]) disk.apply(one);
  let state = 1;
  const random = () => (state = (state * 16807) % 2147483647) / 2147483647;
  return [...crashStates(disk, 'run', 20, random)].map(({ tree }) =>
    Object.fromEntries([...tree].map(([path, { content }]) => [path, content?.().toString('latin1') ?? '/'])),
  );
}

const TEMPORARY = [call('create', 'run/tmp'), written('run/tmp', 'new')];
const RENAMED = call('rename', 'run/tmp', { other: 'run/file' });

test('a file renamed before it was synced may be empty or zeros; after, it is whole or not there', async () => {
  const rash = (await statesAfter([...TEMPORARY, RENAMED, call('sync', 'run')])).map(({ file }) => file);
  expect(rash).toEqual(expect.arrayContaining(['', '\0\0\0', 'new']));
  const synced = [...TEMPORARY, call('sync', 'run/tmp'), RENAMED];
  const careful = (await statesAfter(synced)).map(({ file }) => file);
  expect(new Set(careful)).toEqual(new Set([undefined, 'new']));
  const sure = (await statesAfter([...synced, call('sync', 'run')])).map(({ file }) => file);
  expect(new Set(sure)).toEqual(new Set(['new']));
});

test('appended data may be cut anywhere or be zeros, but what was synced stays', async () => {
  const base = [
    call('create', 'run/log'),
    written('run/log', 'ab'),
    call('sync', 'run/log'),
    call('sync', 'run'),
  ];
  const found = (await statesAfter([...base, written('run/log', 'cdef', 2)])).map(({ log }) => log!);
  expect(found).toEqual(expect.arrayContaining(['ab', 'ab\0\0\0\0', 'abcdef']));
  expect(found.every((text) => text.startsWith('ab'))).toBe(true);
  expect(found.some((text) => /^abc(de?)?$/.test(text))).toBe(true);
});

test('names are reordered, those of one name are not, and a rename is never half', async () => {
  const base = [call('create', 'run/one'), call('sync', 'run/one'), call('sync', 'run')];
  const found = await statesAfter([
    ...base,
    call('rename', 'run/one', { other: 'run/two' }),
    call('mkdir', 'run/other'),
    call('rename', 'run/two', { other: 'run/three' }),
  ]);
  const names = new Set(found.map((state) => Object.keys(state).sort().join()));
  expect(names).toEqual(new Set(['one', 'two', 'three', 'one,other', 'other,two', 'other,three']));
});

test('files of a folder may be gone from the disk before the folder is', async () => {
  const base = [call('mkdir', 'run/old'), call('create', 'run/old/a'), call('sync', 'run/old/a')];
  const removed = [call('rename', 'run/old', { other: 'run/tmp' }), call('remove', 'run/tmp/a')];
  const found = await statesAfter([...base, call('sync', 'run/old'), call('sync', 'run'), ...removed]);
  expect(found).toContainEqual({ old: '/' });
});

test('a run resumes after a power loss at any moment', () => {
  builtCli();
  const words = [join(ROOT, 'scripts', 'power-loss.mjs'), '--states', '400', '--resumes', '3'];
  const { stderr, stdout } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: expect.stringMatching(/^\{/), stderr: expect.any(String) });
  const result = JSON.parse(stdout) as Record<'calls' | 'states' | 'resumed', number> & {
    failures: { message: string }[];
  };
  expect(result).toMatchObject({ states: 400 });
  expect(result.calls).toBeGreaterThan(500);
  expect(result.resumed).toBeGreaterThan(0);
  expect(result.failures).toEqual([]);
});
