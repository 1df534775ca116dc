/** Who may take over a partial download: owners here, and elsewhere on a shared cache. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { claimPartial } from '../../src/hub/partial';

const root = mkdtempSync(join(tmpdir(), 'acoer-partial-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const fresh = () => join(mkdtempSync(join(root, 'blobs-')), 'b'.repeat(40));

/** A partial file whose owner has been changed, last written `secondsAgo`. */
async function owned(change: (name: string) => string, secondsAgo = 0): Promise<string> {
  const blob = fresh();
  const claim = await claimPartial(blob);
  if (!('path' in claim)) throw new Error('expected a claim');
  const path = join(blob, '..', change(basename(claim.path)));
  renameSync(claim.path, path);
  writeFileSync(path, 'first bytes');
  const when = new Date(Date.now() - secondsAgo * 1000);
  utimesSync(path, when, when);
  return blob;
}

const elsewhere = (name: string) => name.replace(/^(\w+\.\d+-\d+)-[0-9a-f]{8}-/, '$1-00000000-');
const ended = (name: string) => name.replace(/\.\d+-/, `.${spawnSync('true').pid}-`);

test('one of a process that lives is waited for', async () => {
  expect(await claimPartial(await owned((name) => name))).toEqual({ busy: { bytes: 11 } });
});

test('one of a process that has ended is taken over at once', async () => {
  const blob = await owned(ended);
  expect(await claimPartial(blob)).toHaveProperty('path');
  expect(readdirSync(join(blob, '..'))).toHaveLength(1);
});

test('one that was given up is taken over at once', async () => {
  const given = (name: string) => name.replace(/\.\d+-\d+-[0-9a-f]{8}-/, '.0-0-00000000-');
  expect(await claimPartial(await owned(given))).toHaveProperty('path');
});

test('one of another machine or container is waited for while it grows, whatever lives under its number here', async () => {
  expect(await claimPartial(await owned((name) => elsewhere(ended(name))))).toEqual({ busy: { bytes: 11 } });
  expect(await claimPartial(await owned(elsewhere, 61))).toHaveProperty('path');
});
