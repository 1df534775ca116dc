/** The rooms of the C++ core: includes point one way, and no file includes itself by way of others. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

const NATIVE = join(__dirname, '..', '..', 'native');

/** From the ground up. A file includes its own room and those below, never a neighbour's. */
const FLOORS: readonly (readonly string[])[] = [
  ['cuda'],
  ['core/base'],
  ['core/kernels/cpu', 'core/kernels/gpu'],
  ['core/matrix'],
  ['core/model'],
  ['core/ops'],
  ['core/train', 'core/generate'],
  ['core/selfcheck'],
  ['addon'],
];
const ROOMS = FLOORS.flat();

interface Include {
  file: string;
  target: string;
}

const files = ['core', 'cuda', 'addon'].flatMap((folder) =>
  readdirSync(join(NATIVE, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(cpp|h|cu|cuh)$/.test(name))
    .map((name) => join(folder, name)),
);

/** What `#include "..."` of a file names: beside the file or, as the compiler is told, below native/core. */
function target(file: string, name: string): string {
  const found = [join(NATIVE, dirname(file), name), join(NATIVE, 'core', name)].find(existsSync);
  return found === undefined ? name : relative(NATIVE, found);
}

function includesOf(file: string): Include[] {
  const text = readFileSync(join(NATIVE, file), 'utf8');
  return [...text.matchAll(/^#include "([^"]+)"/gm)].map(([, name]) => ({
    file,
    target: target(file, name!),
  }));
}

const roomOf = (file: string): string | undefined => ROOMS.find((room) => file.startsWith(`${room}/`));
const floorOf = (room: string | undefined): number => FLOORS.findIndex((floor) => floor.includes(room!));
const shown = (list: Include[]): string[] => list.map(({ file, target }) => `${file} includes ${target}`);

// The emulator (native/test/emu) stands in for CUDA's own headers.
const all = files.flatMap(includesOf).filter(({ target }) => target !== 'cuda_emu.h');

test('the scanner finds includes', () => {
  expect(all.length).toBeGreaterThan(200);
  expect(all).toContainEqual({ file: 'core/kernels/gpu/kernels.h', target: 'cuda/kernels/table.h' });
});

test('every file has a room, and every include names a file of a room', () => {
  expect(files.filter((file) => roomOf(file) === undefined)).toEqual([]);
  expect(shown(all.filter(({ target }) => roomOf(target) === undefined))).toEqual([]);
});

test('includes point to lower rooms, never to a neighbour on the same floor', () => {
  const wrong = all.filter(({ file, target }) => {
    const [from, to] = [roomOf(file), roomOf(target)];
    return from !== to && floorOf(from) <= floorOf(to);
  });
  expect(shown(wrong)).toEqual([]);
});

test('no file includes itself by way of others', () => {
  const below = new Map(files.map((file) => [file, [] as string[]]));
  for (const { file, target } of all) below.get(file)!.push(target);
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
    if (path.includes(file) || done.has(file)) return;
    for (const next of below.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of files) visit(file, []);
  expect(circles).toEqual([]);
});

test('every path in docs/numerics.md has its file and its reference test', () => {
  const page = readFileSync(join(NATIVE, '..', 'docs', 'numerics.md'), 'utf8');
  const section = page.slice(page.indexOf('## Every path'), page.indexOf('## What is equal bit for bit'));
  const rows = [...section.matchAll(/\| `([^`|]+)` +\| `([^`|]+)` +\|$/gm)];
  expect(rows.length).toBeGreaterThan(25);
  const known = new Set(files.map((file) => basename(file)));
  const exists = (name: string): boolean =>
    name.startsWith('golden-')
      ? ['test', 'slow.test'].some((tier) => existsSync(join(__dirname, `${name}.${tier}.ts`)))
      : existsSync(join(NATIVE, 'test', name));
  expect(
    rows.filter(([, file, reference]) => !known.has(file!) || !exists(reference!)).map(([row]) => row),
  ).toEqual([]);
});
