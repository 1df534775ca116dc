/** An old Node is told so before it meets what it cannot run. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'acorn';
import { oldNode } from '../../src/base/node-version';
import { builtCli, ROOT } from '../helpers/cli';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } };
const least = engines.node.replace('>=', '');

const folder = mkdtempSync(join(tmpdir(), 'acoer-node-'));
afterAll(() => rmSync(folder, { recursive: true }));
beforeAll(builtCli);

test.each([
  ['16.20.2', true],
  ['18.20.4', true],
  ['20.9.0', true],
  ['20.18.0', true],
  [least, false],
  ['20.20.0', false],
  ['22.0.0', false],
  ['100.0.0', false],
])('Node %s is too old: %s', (version, old) => {
  const sentence = `Node ${version} is too old: install Node ${least} or newer.`;
  expect(oldNode(version)).toBe(old ? sentence : null);
});

/** Stands in for an old Node, which has no such classes or regular expressions either. */
const asNode18 = join(folder, 'as-node-18.cjs');
writeFileSync(
  asNode18,
  `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.4' } });
const { RegExp: Real } = globalThis;
globalThis.RegExp = new Proxy(Real, { construct(of, words) {
  if (String(words[1]).includes('v')) throw new SyntaxError('Invalid flags supplied to RegExp constructor');
  return new of(...words);
} });`,
);

test.each([
  ['train.js', [join(ROOT, 'train.js')]],
  ['dist/cli/main.js', [join(ROOT, 'dist/cli/main.js'), 'train']],
  ['dist/cli/main.js --version', [join(ROOT, 'dist/cli/main.js'), '--version']],
])('%s says it in one sentence', (_, words) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['-r', asNode18, ...words], {
    encoding: 'utf8',
    cwd: folder,
  });
  expect({ status, stdout, stderr }).toEqual({
    status: 1,
    stdout: '',
    stderr: `acoer: Node 18.20.4 is too old: install Node ${least} or newer.\n`,
  });
});

test('importing the library throws it', () => {
  const code = `try { require(${JSON.stringify(join(ROOT, 'dist/index.js'))}); } catch ({ code, message }) { console.log(code, message); }`;
  const { stdout } = spawnSync(process.execPath, ['-r', asNode18, '-e', code], { encoding: 'utf8' });
  expect(stdout).toBe(`SETUP acoer: Node 18.20.4 is too old: install Node ${least} or newer.\n`);
});

test.each([
  ['dist/cli/main.js', './needs-node'],
  ['dist/index.js', './base/needs-node'],
])('%s loads %s first', (path, first) => {
  expect(/require\("([^"]+)"\)/.exec(read(path))![1]).toBe(first);
});

test.each(['dist/base/node-version.js', 'dist/base/needs-node.js', 'dist/cli/needs-node.js', 'train.js'])(
  '%s needs no more than ES2015',
  (path) => {
    expect(() => parse(read(path), { ecmaVersion: 2015, allowHashBang: true })).not.toThrow();
  },
);

test.each(['dist/cli/main.js', 'dist/index.js'])('Node 16 can read %s', (path) => {
  expect(() => parse(read(path), { ecmaVersion: 2021, allowHashBang: true })).not.toThrow();
});
