/** The output of `npm run docs` is up to date. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

test('generated files are up to date', () => {
  const script = join(__dirname, '..', 'scripts', 'generate-docs.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  expect({ stdout, stderr }).toEqual({ stdout: '', stderr: '' });
  expect(status).toBe(0);
});
