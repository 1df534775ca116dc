/** `scripts/gpu/mutants.mjs` takes minutes to run; that its bugs still have a place in the sources shows at once. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

test('every mutant has its place in the sources', () => {
  const script = join(__dirname, '..', '..', 'scripts', 'gpu', 'mutants.mjs');
  const { status, stdout, stderr } = spawnSync('node', [script, '--list'], { encoding: 'utf8' });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  expect(stdout.trim().split('\n').length).toBeGreaterThan(10);
});
