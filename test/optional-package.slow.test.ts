/** Packages that only draw or push are optional: nothing else loads them, and what does says what is missing. */
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtCli, ROOT } from './helpers/cli';

const { optionalDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  optionalDependencies: Record<string, string>;
};
/** Without the engine's own, which set-up compiles where it is absent. */
const OPTIONAL = Object.keys(optionalDependencies).filter((name) => !name.startsWith('@acoer/'));

const folder = mkdtempSync(join(tmpdir(), 'acoer-optional-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A program to require first, after which the optional packages cannot be found. */
function absence(): string {
  const hooks = `
    export const resolve = (name, context, next) => {
      if (!${JSON.stringify(OPTIONAL)}.includes(name)) return next(name, context);
      throw Object.assign(new Error('Cannot find package ' + name), { code: 'ERR_MODULE_NOT_FOUND' });
    };`;
  const path = join(folder, 'absent.cjs');
  writeFileSync(
    path,
    `const Module = require('node:module');
    const find = Module._resolveFilename;
    Module._resolveFilename = function (name, ...rest) {
      if (!${JSON.stringify(OPTIONAL)}.includes(name)) return find.call(this, name, ...rest);
      throw Object.assign(new Error('Cannot find module ' + name), { code: 'MODULE_NOT_FOUND' });
    };
    Module.register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));`,
  );
  return path;
}

/** The compiled program without the optional packages. */
function acoer(...words: string[]): { code: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--require', absence(), builtCli(), ...words],
    {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, HF_TOKEN: 'hf_none' },
    },
  );
  return { code: status, stdout, stderr };
}

test('they are imported where something is drawn or pushed, and nowhere as a module is loaded', () => {
  const named = new RegExp(`from '(${OPTIONAL.join('|')})'|require\\('(${OPTIONAL.join('|')})'`);
  const src = join(ROOT, 'src');
  const wrong = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) =>
      readFileSync(join(src, name), 'utf8')
        .split('\n')
        .filter((line) => named.test(line) && !line.startsWith('import type '))
        .map((line) => `${name}: ${line}`),
    );
  expect(OPTIONAL).toHaveLength(5);
  expect(wrong).toEqual([]);
});

test('a run trains without them, and report, lab --svg and push name the package and the command', () => {
  const run = join(folder, 'run');
  const trained = acoer('train', '--preset', 'tiny', '--max-steps', '1', '--out', run, '--threads', '1');
  expect(trained).toMatchObject({ code: 0 });
  const missing = (user: string, name: string) =>
    new RegExp(
      `${user} needs the optional package ${name}, which is not installed; run npm install --include=optional\\.\\n$`,
    );
  const report = acoer('report', run);
  expect({ ...report, stdout: '' }).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(missing('acoer report', '(@observablehq/plot|linkedom|diff)')) as string,
  });
  const lab = acoer('lab', '--reward', 'acc', '--svg', join(folder, 'lab.svg'));
  expect({ code: lab.code, stderr: lab.stderr }).toEqual({
    code: 2,
    stderr: expect.stringMatching(missing('acoer lab --svg', '(@observablehq/plot|linkedom)')) as string,
  });
  const push = acoer('push', run, 'org/name', '--base-model', 'org/base');
  expect(push).toEqual({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(missing('acoer push', '@huggingface/hub')) as string,
  });
});
