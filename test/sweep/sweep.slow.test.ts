/** Real sweeps of the embedded model, as processes. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { readMetrics } from '../../src/run';
import { lockOwner, lockState } from '../../src/run/lock';
import { readSweep, type Sweep } from '../../src/sweep';
import { ended, reached, spawnAcoer, type CommandResult } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';

const folder = mkdtempSync(join(tmpdir(), 'acoer-sweep-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SMALL = `
base:
  preset: tiny
  maxSteps: 4
  saveSteps: 2
  promptsPerStep: 2
  maxCompletionLength: 48
  evalProblems: 4
  evalSampledProblems: 4
  evalMaxNewTokens: 48
`;

function fileOf(name: string, text: string): string {
  const path = join(folder, `${name}.yaml`);
  writeFileSync(path, text);
  return path;
}

/** While this file is there, runs of `acc` wait in their second step. */
const hold = join(folder, 'hold');
const held = join(folder, 'held');
writeFileSync(
  join(folder, 'acc.mjs'),
  `import { existsSync, writeFileSync } from 'node:fs';
   import { setTimeout } from 'node:timers/promises';
   let calls = 0;
   export default async ({ correct }) => {
     // A step has eight completions.
     if (++calls > 8 && existsSync(${JSON.stringify(hold)})) {
       writeFileSync(${JSON.stringify(held)}, '');
       while (existsSync(${JSON.stringify(hold)})) await setTimeout(5);
     }
     return correct ? 1 : 0;
   };
  `,
);

const THREE = fileOf(
  'three',
  `${SMALL}
runs:
  - { name: acc, set: { reward: mine, rewardModules: { mine: acc.mjs } } }
  - { name: grpo-lp, set: { reward: grpo-lp } }
  - { name: acoer }
grid: { seed: [1, 2] }
parallel: 2
`,
);

const sweep = (file: string, out: string, ...words: string[]): Promise<CommandResult> =>
  ended(spawnAcoer('sweep', file, '--out', out, ...words));

const states = ({ runs }: Sweep): string[] => runs.map(({ state }) => state);

const metricsOf = (path: string) => readMetrics(join(path, 'metrics.jsonl'));

/** A sweep of one of the methods, in which one run has made a step and is held in the next. */
async function underWay(
  out: string,
): Promise<{ child: ChildProcessWithoutNullStreams; end: Promise<CommandResult> }> {
  rmSync(held, { force: true });
  writeFileSync(hold, '');
  const child = spawnAcoer('sweep', THREE, '--out', out, '--only', 'acc');
  const end = ended(child);
  const metrics = join(out, 'runs', 'acc-s1', 'metrics.jsonl');
  // Either run may be held first.
  const hasStep = () => existsSync(metrics) && readFileSync(metrics, 'utf8').includes('\n');
  await reached(child, end, () => existsSync(held) && hasStep());
  return { child, end };
}

const whole = join(folder, 'whole');

/** Everything of that method's runs but checkpoints, which an interruption adds to. */
function resultsOf(out: string) {
  const runs = readSweep(out).runs.filter(({ method }) => method === 'acc');
  expect(runs.map(({ state }) => state)).toEqual(['done', 'done']);
  return runs.map(({ folder: name }) => {
    const files = [...untimedFiles(join(out, name))];
    return [name, files.filter(([path]) => !path.startsWith('checkpoints/'))];
  });
}

test('three methods, two seeds: each run is that of acoer train alone; the second time nothing is left', async () => {
  const { code, stdout, stderr } = await sweep(THREE, whole);
  expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining('2 at a time, ') });
  expect(stdout).toContain('All 6 runs are done');
  expect(stderr).toContain(`report ${join(whole, 'report.html')}`);
  const page = readFileSync(join(whole, 'report.html'), 'utf8');
  for (const method of ['acc', 'grpo-lp', 'acoer']) expect(page).toContain(method);
  const made = readSweep(whole);
  expect(made.runs.map((run) => [run.folder, run.method, run.seed, run.state, run.exitCode])).toEqual(
    [1, 2].flatMap((seed) =>
      ['acc', 'grpo-lp', 'acoer'].map((method) => [`runs/${method}-s${seed}`, method, seed, 'done', 0]),
    ),
  );
  const threads = (
    JSON.parse(readFileSync(join(whole, 'runs/grpo-lp-s2/config.json'), 'utf8')) as { threads: number }
  ).threads;
  const alone = join(folder, 'alone');
  const settings = join(whole, 'runs', 'grpo-lp-s2.yaml');
  const run = await ended(spawnAcoer('train', settings, '--out', alone, '--threads', String(threads)));
  expect(run.code).toBe(0);
  expect(untimedFiles(alone)).toEqual(untimedFiles(join(whole, 'runs/grpo-lp-s2')));

  const again = await sweep(THREE, whole, '--resume');
  expect({ code: again.code, stderr: again.stderr }).toEqual({
    code: 0,
    stderr: `report ${join(whole, 'report.html')}\n`,
  });
  expect(again.stdout).toBe(stdout);
  expect(readSweep(whole)).toEqual(made);
  const refused = await sweep(THREE, whole);
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('continue it with --resume') });
});

test('a reward that throws fails, one that collapses is done, and the others go on', async () => {
  writeFileSync(join(folder, 'throws.mjs'), "export default () => { throw new Error('no such luck'); };\n");
  const file = fileOf(
    'faults',
    `${SMALL}
runs:
  - { name: throws, set: { reward: throws, rewardModules: { throws: throws.mjs } } }
  - name: collapses
    set:
      onCollapse: stop
      evalMaxNewTokens: 256
      monitor: { spanGroups: 2, collapseSteps: 1, collapseThinkingRatio: 0.9, collapseThinkingTokens: null, collapseAccuracyDrop: 0.01, collapseZ: null }
  - { name: acoer }
parallel: 3
`,
  );
  const out = join(folder, 'faults');
  const { code, stdout } = await sweep(file, out);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^throws-s42 +failed: Reward "throws" failed on .*: no such luck$/m);
  expect(stdout).toMatch(/^collapses-s42 .* done, collapsed$/m);
  expect(stdout).toMatch(/^acoer-s42 +4 .* done$/m);
  const { runs } = readSweep(out);
  expect(runs.map((run) => [run.state, run.exitCode, run.collapsed])).toEqual([
    ['failed', 1, false],
    ['done', 1, true],
    ['done', 0, false],
  ]);
  // What has collapsed is a result: only the failed run is tried again.
  const again = await sweep(file, out, '--resume');
  expect(again.code).toBe(1);
  expect(again.stderr.match(/^started .*$/gm)).toEqual(['started  throws-s42']);
});

test('asked to end: the runs save, exit 130 with the command that goes on, and the rest is as undisturbed', async () => {
  const out = join(folder, 'stopped');
  const { child, end } = await underWay(out);
  child.kill('SIGTERM');
  const { code, stdout } = await end;
  expect(code).toBe(130);
  rmSync(hold);
  expect(stdout).toContain(`To go on: acoer sweep ${THREE} --out ${out} --resume`);
  expect(readSweep(out).runs[0]).toMatchObject({ state: 'waiting', exitCode: 130 });
  expect(lockState(join(out, 'runs/acc-s1'))).toBe('free');
  const resumed = await sweep(THREE, out, '--resume', '--only', 'acc');
  expect(resumed.code).toBe(0);
  expect(resultsOf(out)).toEqual(resultsOf(whole));
});

test('the sweep is killed: its runs save and end by themselves, and what they leave is resumed', async () => {
  const out = join(folder, 'killed');
  const { child, end } = await underWay(out);
  const { pid } = lockOwner(join(out, 'runs/acc-s1'))!;
  // Stopped, it cannot end before the sweep is resumed.
  process.kill(pid, 'SIGSTOP');
  child.kill('SIGKILL');
  await end;
  rmSync(hold);
  expect(states(readSweep(out))).toContain('running');
  const resumed = spawnAcoer('sweep', THREE, '--out', out, '--resume', '--only', 'acc');
  let told = '';
  resumed.stderr.on('data', (chunk: Buffer) => (told += chunk.toString()));
  const done = ended(resumed);
  while (!told.includes('waiting') && resumed.exitCode === null) await setTimeout(10);
  process.kill(pid, 'SIGCONT');
  const { code, stderr } = await done;
  expect(stderr).toContain(
    `waiting  acc-s1 is still running as process ${pid}; it is resumed when that has ended`,
  );
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(metricsOf(join(out, 'runs/acc-s1'))).toHaveLength(4);
  expect(resultsOf(out)).toEqual(resultsOf(whole));
});
