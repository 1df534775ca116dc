/** Before the first test: what must be built, and one folder for the temporary files of all tests. */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { builtCli, hasAddons } from './built';

/** The folder is removed, with whatever a test left there, when Jest ends. */
function temporaryFolder(): void {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-tests-'));
  // Some tests read their files as another user.
  chmodSync(folder, 0o755);
  process.env.TMPDIR = folder;
  // Where commands note the modules that they were given.
  process.env.XDG_STATE_HOME = join(folder, 'state');
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
}

export default function beforeAllTests(): void {
  if (!hasAddons()) {
    process.stderr.write(
      'The native addon is not built: run `npm run build` (or `npm ci`), then the tests.\n',
    );
    process.exit(1);
  }
  // Here, because workers that each found it out of date would write it at the same time.
  builtCli();
  temporaryFolder();
}
