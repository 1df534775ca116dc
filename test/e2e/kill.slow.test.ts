/** A small part of scripts/kill-test.mjs. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { builtCli, ROOT } from '../helpers/cli';

jest.setTimeout(600_000);

test('runs killed at random moments resume to the result of an uninterrupted run', () => {
  builtCli();
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    [join(ROOT, 'scripts', 'kill-test.mjs'), '--kills', '5'],
    { encoding: 'utf8' },
  );
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ kills: 5 });
});
