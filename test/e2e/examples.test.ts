/** The examples of the repository, as they stand, over the built package. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../helpers/cli';

jest.setTimeout(120_000);

const folder = mkdtempSync(join(tmpdir(), 'acoer-examples-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('a loss of your own trains the embedded model', () => {
  const args = [join(ROOT, 'examples', 'loss.mjs'), join(folder, 'loss')];
  const printed = execFileSync(process.execPath, args, { encoding: 'utf8' });
  expect(printed).toMatch(
    /^step 1: loss -?\d\.\d{4}, gradient \d\.\d{3}\nstep 2: loss -?\d\.\d{4}, gradient \d\.\d{3}\n$/,
  );
});
