/** Commands in places that are gone, with an output that is full, and with an input that is none. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import type * as nodeOs from 'node:os';
import { join } from 'node:path';
import { describeLoadFailure } from '../../src/base/addon';
import { makeFolders } from '../../src/base/folders';
import { readHubSettings } from '../../src/hub/settings';
import { writePatiently } from '../../src/run';
import { acoer, builtCli } from '../helpers/cli';

/** The module itself, whose functions can be replaced. */
const os = jest.requireActual<typeof nodeOs>('node:os');
const root = mkdtempSync(join(os.tmpdir(), 'acoer-surroundings-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A shell line in which $ACOER is the program. */
function shell(line: string) {
  const env = { ...process.env, ACOER: `${process.execPath} ${builtCli()}` };
  const { status, stdout, stderr } = spawnSync('sh', ['-c', line], { cwd: root, env, encoding: 'utf8', timeout: 60_000 });
  return { status, stdout, stderr };
} // prettier-ignore

const LINE = `echo '{"gold": "1", "pred": "\\\\boxed{1}"}'`;

test.each([
  'train',
  `train --out ${join(root, 'run')}`,
  'eval --model tiny --benchmark tiny',
  'report x',
  'verify',
])('acoer %s in a folder that was deleted', (words) => {
  const { status, stderr } = shell(`mkdir gone; cd gone; rmdir ../gone; $ACOER ${words} < /dev/null`);
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: 'acoer: The working directory has been deleted; change to another one (cd).\n',
  });
});

test.each(['train', 'eval --model tiny --benchmark tiny --problems 1'])(
  'acoer %s --out under /proc',
  (words) => {
    const { status, stderr } = shell(`$ACOER ${words} --out /proc/acoer/x`);
    expect(stderr).toMatch(/acoer: Cannot write .*No folder can be made in \/proc; choose another one\.\n$/);
    expect(status).toBe(2);
  },
);

test('folders are made one by one; a file in the way is an error, an empty name as well', () => {
  makeFolders(join(root, 'a', 'b', 'c'));
  makeFolders(join(root, 'a', 'b', 'c'));
  expect(() => makeFolders('/dev/null/x')).toThrow('ENOTDIR');
  expect(() => makeFolders('')).toThrow('empty');
});

test.each(['train --out', 'eval --model tiny --benchmark tiny --out', 'fork x --at 1 --out', 'report x --out', 'report x --figures'])(
  'acoer %s with an empty name',
  async (words) => {
    const { code, stderr } = await acoer(...words.split(' '), '');
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('must not be empty') });
  },
); // prettier-ignore

test('standard output on a full disk is one sentence', () => {
  const { status, stderr } = shell(`${LINE} | $ACOER verify > /dev/full`);
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: 'acoer: Cannot write the output: the disk is full.\n',
  });
  expect(shell(`${LINE} | $ACOER verify > /dev/full 2>&1`).status).toBe(1);
});

test('standard input that is a folder is named', () => {
  const { status, stderr } = shell('$ACOER verify < /');
  expect({ status, stderr }).toEqual({
    status: 2,
    stderr: 'acoer: Standard input is a folder; name a JSON Lines file.\n',
  });
});

test('a file that would be too large is WRITE_FAILED with advice, not waited out', async () => {
  const patience = { retryMs: 1e9, giveUpMs: 1e9 };
  const fail = () => {
    throw new Error('cannot write x: File too large');
  };
  const written = writePatiently('x', fail, patience, () => undefined, new AbortController().signal);
  await expect(written).rejects.toMatchObject({
    code: 'WRITE_FAILED',
    message: expect.stringContaining('ulimit -f'),
  });
});

test('a libtorch in a folder without permission, of which the loader says that it is not there', () => {
  const why = 'libtorch.so: cannot open shared object file: No such file or directory';
  expect(describeLoadFailure('the native engine', 'acoer.node', new Error(why))).toContain(
    'removed or moved, or that this user may not read (libtorch.so',
  );
});

describe('a user without HOME and without a passwd entry', () => {
  beforeEach(() => {
    jest.spyOn(os, 'homedir').mockImplementation(() => {
      throw Object.assign(new Error('uv_os_homedir returned ENOENT (no such file or directory)'), { code: 'ERR_SYSTEM_ERROR' });
    });
  }); // prettier-ignore
  afterEach(() => jest.restoreAllMocks());

  test('works where the cache has a place', () => {
    expect(readHubSettings({ HF_HOME: '/x' })).toMatchObject({ cacheDirectory: '/x/hub', token: null });
    expect(readHubSettings({ XDG_CACHE_HOME: '/x' })).toMatchObject({ cacheDirectory: '/x/huggingface/hub' });
    expect(readHubSettings({ HF_HUB_CACHE: '/x', HF_TOKEN: 't' })).toMatchObject({
      cacheDirectory: '/x',
      token: 't',
    });
  });

  test('is told what to set', () => {
    expect(() => readHubSettings({})).toThrow(
      expect.objectContaining({ code: 'HUB', message: expect.stringContaining('set HF_HOME to a folder') }),
    );
  });
});
