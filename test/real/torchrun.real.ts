/** docs/ranks.md's command for torchrun: what it trains, and how it goes on after a killed rank. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../helpers/cli';
import { needs } from '../helpers/needs';
import { pidOfRank } from '../helpers/proc';
import {
  example,
  exampleFolder,
  expectSame,
  freePort,
  killAll,
  start,
  startLine,
  untilStep,
} from '../helpers/rank-processes';

const BIN = join(ROOT, '.cache', 'real', 'venv', 'bin');

let root: string;
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'acoer-torchrun-'));
});
afterAll(() => {
  killAll();
  rmSync(root, { recursive: true });
});

needs('torchrun in .cache/real/venv', existsSync(join(BIN, 'torchrun'))).describe('torchrun', () => {
  let reference: string;
  beforeAll(async () => {
    reference = join(root, 'one');
    const one = start(['--out', reference]);
    expect([await one.ended, one.text()]).toEqual([0, expect.any(String)]);
  });

  const command = () => example(/^torchrun --standalone/);

  test('the example trains what one process trains', async () => {
    const folder = exampleFolder(root, 'standalone');
    const run = startLine(command(), folder, [BIN]);
    expect([await run.ended, run.text()]).toEqual([0, expect.stringContaining('run runs/mine\n')]);
    await expectSame(join(folder, 'runs', 'mine'), reference);
  });

  test('--max-restarts: after a killed rank all go on with the run in --out', async () => {
    const folder = exampleFolder(root, 'restarted');
    const path = join(folder, 'runs', 'mine');
    // As on several machines, each of which is told where the first is.
    const meeting = `--master-addr 127.0.0.1 --master-port ${await freePort()} --max-restarts 1`;
    const run = startLine(command().replace('--standalone', meeting), folder, [BIN]);
    await untilStep(path, 3, run);
    process.kill(pidOfRank(run.child.pid!, 1), 'SIGKILL');
    expect([await run.ended, run.text()]).toEqual([0, expect.stringMatching(/resuming after step \d/)]);
    await expectSame(path, reference);
  });
});
