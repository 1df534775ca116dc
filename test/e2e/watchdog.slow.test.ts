/** `acoer train` as a process in which something hangs, on the real engine. */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { readMetrics } from '../../src/run';
import { builtCli, ended, reached, ROOT, spawnAcoer, type CommandResult } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';

const folder = mkdtempSync(join(tmpdir(), 'acoer-watchdog-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const set = (values: Record<string, string | number>) =>
  Object.entries(values).flatMap(([name, value]) => ['--set', `${name}=${value}`]);

const SHORT = ['--max-steps', '4', ...set({ evalProblems: 0, evalSampledProblems: 0, saveSteps: 1 })];
/** Far longer than any phase of the tiny model takes. */
const LIMIT_MS = 15_000;

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const dumps = (run: string) => readdirSync(run).filter((name) => name.startsWith('watchdog-'));
const dump = (run: string, name: string) =>
  JSON.parse(readFileSync(join(run, name), 'utf8')) as Record<string, unknown>;

/** `acoer train` with a script that runs first in its process. */
function trainAfter(script: string, ...words: string[]): Promise<CommandResult> {
  const command = ['--require', script, builtCli(), 'train', ...words];
  return ended(spawn(process.execPath, command, { cwd: ROOT }));
}

async function resumed(run: string): Promise<void> {
  const { code, stderr } = await ended(spawnAcoer('train', '--resume', run));
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(readMetrics(join(run, 'metrics.jsonl')).map(({ step }) => step)).toEqual([1, 2, 3, 4]);
}

test.each([
  ['never answers', 'new Promise(() => undefined)'],
  ['loops', '(() => { for (;;); })()'],
])('a reward in a file that %s: exit 1 with a sentence, and the run can be resumed', async (name, hang) => {
  const flag = write(`${name}.flag`, '');
  const code = `const { existsSync } = require('node:fs');
    let calls = 0;
    module.exports = () => (++calls > 40 && existsSync(${JSON.stringify(flag)}) ? ${hang} : 1);`;
  const path = join(folder, `run ${name}`);
  const modules = ['--set', `rewardModules.mine=${write(`${name}.cjs`, code)}`, '--reward', 'mine'];
  const limits = set({ 'watchdogPhaseMs.reward': 5_000 });
  const result = await ended(spawnAcoer('train', '--out', path, ...SHORT, ...modules, ...limits));
  expect(result.stderr).toMatch(
    /acoer: No progress in reward of step 2 for .*watchdog-2-reward\.json\. The run was ended; resume with: acoer train --resume /,
  );
  expect(result.code).toBe(1);
  expect(dump(path, 'watchdog-2-reward.json')).toMatchObject({ phase: 'reward', step: 2 });
  expect(existsSync(join(path, 'lock.json'))).toBe(false);
  rmSync(flag);
  await resumed(path);
});

test('a blocked main thread: the dump has its stack, the process ends, and the run can be resumed', async () => {
  const path = join(folder, 'blocked');
  const script = write(
    'block.cjs',
    `const { readFileSync } = require('node:fs');
     function endlessLoop() { for (;;); }
     const lines = () => { try { return readFileSync(${JSON.stringify(join(path, 'metrics.jsonl'))}, 'utf8'); } catch { return ''; } };
     setInterval(() => { if (lines().split('\\n').length > 2) endlessLoop(); }, 1).unref();`,
  );
  const limits = ['generate', 'train', 'optimizer', 'score', 'reward', 'checkpoint'].map((phase) => [
    `watchdogPhaseMs.${phase}`,
    LIMIT_MS,
  ]);
  const result = await trainAfter(script, '--out', path, ...SHORT, ...set(Object.fromEntries(limits)));
  expect(result.stderr).toMatch(
    /acoer: No progress in .* The main thread is blocked, so the process was ended/,
  );
  expect(result.code).toBe(1);
  const [name] = dumps(path);
  const { mainThread, mainStack, engine } = dump(path, name!);
  expect(mainThread).toBe('blocked');
  expect((mainStack as string[])[0]).toMatch(/^endlessLoop file:.*block\.cjs:2$/);
  expect(engine).toMatchObject({ device: 'cpu' });
  await resumed(path);
});

test('an engine stuck in a system call: the process ends anyway, and the run can be resumed', async () => {
  const path = join(folder, 'stuck');
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  // Opening a pipe without a reader for writing blocks the engine's own thread in the kernel.
  const script = write(
    'stick.cjs',
    `const { NativePolicy } = require(${JSON.stringify(join(dirname(builtCli()), '..', 'engine', 'policy.js'))});
     const { step } = NativePolicy.prototype;
     let calls = 0;
     NativePolicy.prototype.step = function (...given) {
       return ++calls === 3 ? this.save(${JSON.stringify(pipe)}) : step.apply(this, given);
     };
     const { Watchdog } = require(${JSON.stringify(join(dirname(builtCli()), '..', 'life', 'watchdog', 'index.js'))});
     const { grace } = Watchdog.prototype;
     Watchdog.prototype.grace = function (...given) { this.parts.graceMs = 500; return grace.apply(this, given); };`,
  );
  const result = await trainAfter(
    script,
    '--out',
    path,
    ...SHORT,
    ...set({ 'watchdogPhaseMs.optimizer': 5_000 }),
  );
  expect(result.stderr).toMatch(
    /acoer: No progress in optimizer of step 3 .* resume with: acoer train --resume /,
  );
  expect(result.code).toBe(1);
  const { threads } = dump(path, 'watchdog-3-optimizer.json') as { threads: { state: string }[] };
  expect(threads.length).toBeGreaterThan(2);
  await resumed(path);
});

test('a normal run suspended for longer than the limit: nothing fires, and the numbers are those of an undisturbed run', async () => {
  const limits = set({ watchdogMs: LIMIT_MS, rewardTimeoutMs: 1_000 });
  const alone = join(folder, 'alone');
  const stopped = join(folder, 'stopped');
  expect((await ended(spawnAcoer('train', '--out', alone, ...SHORT, ...limits))).code).toBe(0);
  const child = spawnAcoer('train', '--out', stopped, ...SHORT, ...limits);
  const end = ended(child);
  await reached(child, end, () => existsSync(join(stopped, 'checkpoints', 'step-000001')));
  child.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, 1.5 * LIMIT_MS));
  child.kill('SIGCONT');
  const { code, stderr } = await end;
  expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
  expect(stderr).not.toContain('No progress');
  expect([...dumps(alone), ...dumps(stopped)]).toEqual([]);
  expect(untimedFiles(stopped)).toEqual(untimedFiles(alone));
});
