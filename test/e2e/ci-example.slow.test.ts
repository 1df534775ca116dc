/** The commands of the CI example, in its order, as its runner would give them to bash. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parse } from 'yaml';

import { builtCli, ROOT } from '../helpers/cli';

const folder = mkdtempSync(join(tmpdir(), 'acoer-ci-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Workflow {
  jobs: { train: { steps: { run?: string; uses?: string; with?: { path?: string } }[] } };
}

test('examples/ci/github-actions.yml trains and leaves the report that it uploads', () => {
  const text = readFileSync(join(ROOT, 'examples', 'ci', 'github-actions.yml'), 'utf8');
  const { steps } = (parse(text) as Workflow).jobs.train;
  // Installing is tested by scripts/install-check.mjs, which needs a registry.
  const commands = steps
    .flatMap(({ run }) => run ?? [])
    .filter((command) => !/^(npm ci|npx acoer setup)$/.test(command));
  expect(commands.length).toBeGreaterThan(1);
  const cli = builtCli();
  writeFileSync(join(folder, 'npx'), `#!/bin/sh\nshift\nexec "${process.execPath}" "${cli}" "$@"\n`, {
    mode: 0o755,
  });
  const env = { ...process.env, PATH: [folder, process.env.PATH].join(delimiter) };
  for (const command of commands) {
    const { status, stderr } = spawnSync('bash', ['-eo', 'pipefail', '-c', command], {
      cwd: folder,
      env,
      encoding: 'utf8',
    });
    expect({ command, status, stderr: status === 0 ? '' : stderr }).toEqual({
      command,
      status: 0,
      stderr: '',
    });
  }
  const uploaded = steps.find(({ uses }) => uses?.startsWith('actions/upload-artifact'))?.with?.path;
  expect(readFileSync(join(folder, uploaded!), 'utf8')).toMatch(/^<!doctype html>/i);
});
