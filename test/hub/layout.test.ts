/**
 * Our cache has the same layout as huggingface_hub's: the fixture is a cache that it wrote
 * (scripts/fixtures/hub_cache.py).
 */
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fetchSnapshot } from '../../src/hub';
import { hubForTests } from '../helpers/hub';
import { SAMPLE } from '../helpers/hub-server';

type Entry = { link: string } | { text: string } | { size: number };

const { layout } = JSON.parse(
  readFileSync(resolve(__dirname, '../fixtures/hub/python-cache.json'), 'utf8'),
) as { layout: Record<string, Entry> };

const { hub, cache, setEnvironment } = hubForTests();

const REPOSITORIES = [
  ['acoer-test/sample', 'model'],
  ['acoer-test/rows', 'dataset'],
] as const;

function layoutOf(folder: string): Record<string, Entry> {
  const entries = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map(
    (name): [string, Entry | null] => {
      const path = join(folder, name);
      const stat = lstatSync(path);
      if (stat.isSymbolicLink()) return [name, { link: readlinkSync(path) }];
      if (!stat.isFile()) return [name, null];
      const isText = name.includes('/refs/') || name.includes('/trees/');
      return [name, isText ? { text: readFileSync(path, 'utf8') } : { size: stat.size }];
    },
  );
  return Object.fromEntries(entries.filter((entry): entry is [string, Entry] => entry[1] !== null));
}

test('a fetch writes what huggingface_hub writes: the same blobs, links, refs and listings', async () => {
  for (const [name, type] of REPOSITORIES) await fetchSnapshot(name, { type });
  expect(layoutOf(cache())).toEqual(layout);
});

test('a cache that huggingface_hub filled is read without the network', async () => {
  const contents = new Map<number, Buffer>();
  for (const files of Object.values(SAMPLE)) {
    for (const data of Object.values(files)) contents.set(Buffer.from(data).length, Buffer.from(data));
  }
  for (const [name, entry] of Object.entries(layout)) {
    const path = join(cache(), name);
    mkdirSync(dirname(path), { recursive: true });
    if ('link' in entry) symlinkSync(entry.link, path);
    else writeFileSync(path, 'text' in entry ? entry.text : contents.get(entry.size)!);
  }
  await hub().stop();
  setEnvironment({ HF_HUB_OFFLINE: '1' });
  for (const [name, type] of REPOSITORIES) {
    const { files, directory } = await fetchSnapshot(name, { type });
    expect(files).toEqual(Object.keys(SAMPLE[`${type}s/${name}`]!).sort());
    for (const file of files) expect(readFileSync(join(directory, file)).length).toBeGreaterThan(0);
  }
});
