/** One folder for the temporary files of all tests, removed with whatever a test left there when Jest ends. */
const { chmodSync, mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const { join } = require('node:path');

module.exports = () => {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-tests-'));
  // Some tests read their files as another user.
  chmodSync(folder, 0o755);
  process.env.TMPDIR = folder;
  // Where commands note the modules that they were given.
  process.env.XDG_STATE_HOME = join(folder, 'state');
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
};
