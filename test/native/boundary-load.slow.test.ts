/**
 * An addon that does not load says what is wrong and what mends it: real broken files, in a copy of the
 * package.
 */
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

import { transformFileSync } from '@swc/core';

import { ADDON } from '../helpers/engine-child';

const ROOT = resolve(__dirname, '..', '..');
const folder = mkdtempSync(join(tmpdir(), 'acoer-load-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(() => {
  for (const name of ['base/errors', 'base/regular-file', 'base/addon', 'engine/binding']) {
    const { code } = transformFileSync(join(ROOT, 'src', `${name}.ts`), {
      jsc: { parser: { syntax: 'typescript' }, target: 'es2022' },
      module: { type: 'commonjs' },
    });
    const path = join(folder, 'dist', `${name}.js`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, code);
  }
  const release = join(folder, 'build', 'Release');
  mkdirSync(release, { recursive: true });
  symlinkSync(realpathSync(join(dirname(ADDON), 'libtorch')), join(release, 'libtorch'));
});

/** What loading says with these bytes as the addon; null: no file. */
function load(addon: Buffer | null): { code?: string; message?: string; waitPolicy?: string } {
  const path = join(folder, 'build', 'Release', 'acoer.node');
  rmSync(path, { force: true });
  if (addon !== null) writeFileSync(path, addon);
  const script = `
    const { loadAddon } = require(${JSON.stringify(join(folder, 'dist/engine/binding.js'))});
    const say = (value) => console.log(JSON.stringify(value));
    try { loadAddon(); say({ waitPolicy: process.env.OMP_WAIT_POLICY }); }
    catch (error) { say({ code: error.code, message: error.message }); }`;
  const env: NodeJS.ProcessEnv = { ...process.env, NODE_OPTIONS: '', NODE_PATH: join(ROOT, 'node_modules') };
  delete env.OMP_WAIT_POLICY;
  return JSON.parse(execFileSync(process.execPath, ['-e', script], { env, encoding: 'utf8' })) as ReturnType<
    typeof load
  >;
}

test('the real addon loads from another folder, with OpenMP told not to spin', () => {
  expect(load(readFileSync(ADDON))).toEqual({ waitPolicy: 'passive' });
});

test.each<[string, () => Buffer | null, RegExp]>([
  ['no addon', () => null, /is not built .*; run: npx acoer setup$/],
  [
    'a text file',
    () => Buffer.from('not a library, but long enough to be read as one'.repeat(20)),
    /another Node.js or machine, or is truncated .*; run: npx acoer setup$/,
  ],
  ['a truncated file', () => readFileSync(ADDON).subarray(0, 40), /; run: npx acoer setup$/],
  [
    'half a file',
    () => readFileSync(ADDON).subarray(0, 200_000),
    /or is truncated .*; run: npx acoer setup$/,
  ],
  [
    'a missing libtorch',
    () =>
      Buffer.from(
        readFileSync(ADDON).toString('latin1').replaceAll('libtorch_cpu.so', 'libtorch_old.so'),
        'latin1',
      ),
    /libtorch that was removed or moved, or that this user may not read \(libtorch_old\.so is not found\); run: npx acoer setup$/,
  ],
])('%s', (_name, addon, sentence) => {
  const { code, message } = load(addon());
  expect(code).toBe('LOAD_FAILED');
  expect(message).toMatch(sentence);
});
