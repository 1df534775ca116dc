/**
 * Evaluations of several processes: what one process would have made, also when they are interrupted and resumed; and
 * what `acoer doctor --ranks` says of such processes.
 */
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { builtCli, type CommandResult, ended, objects, reached } from '../helpers/cli';
import { pidOfRank } from '../helpers/proc';

const root = mkdtempSync(join(tmpdir(), 'acoer-eval-ranks-'));
const children = new Set<ChildProcessWithoutNullStreams>();
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
});

function start(words: readonly string[]): {
  child: ChildProcessWithoutNullStreams;
  end: Promise<CommandResult>;
} {
  const env = { ...process.env, OMP_WAIT_POLICY: 'passive' };
  const child = spawn(process.execPath, [builtCli(), ...words], { env });
  children.add(child);
  return { child, end: ended(child).finally(() => children.delete(child)) };
}

async function run(...words: string[]): Promise<CommandResult> {
  const result = await start(words).end;
  expect([result.code, result.stderr]).toEqual([0, expect.any(String)]);
  return result;
}

describe('in training', () => {
  const SETTINGS = [
    ...['--preset', 'tiny', '--max-steps', '4', '--threads', '1', '--json'],
    ...Object.entries({
      ...{ promptsPerStep: 2, numGenerations: 4, maxCompletionLength: 40, learningRate: 2e-3, saveSteps: 2 },
      ...{ evalSteps: 2, evalProblems: 24, evalSampledProblems: 7, evalMaxNewTokens: 120 },
    }).flatMap(([name, value]) => ['--set', `${name}=${value}`]),
  ];
  const CLOCKED = /^(step_time$|time\/|memory\/|ranks\/|micro_batches$)|per_second/;
  /** What evaluations leave, and the metrics without those that the clock makes. */
  const traces = (path: string) => {
    const folder = join(path, 'evaluations');
    const tables = readdirSync(folder)
      .sort()
      .map((name) => [name, readFileSync(join(folder, name)).toString('base64')]);
    const metrics = objects<Record<string, number>>(readFileSync(join(path, 'metrics.jsonl'), 'utf8')).map(
      (line) => Object.entries(line).filter(([name]) => !CLOCKED.test(name)),
    );
    const summary = JSON.parse(readFileSync(join(path, 'summary.json'), 'utf8')) as { run: object };
    return { tables, metrics, summary: { ...summary, run: { ...summary.run, directory: null } } };
  };
  /** To the bit, but for the sums of a step, which two processes take in another order. */
  const expectSame = (path: string, reference: string): void => {
    const { metrics, ...exact } = traces(reference);
    const near = metrics.map((line) =>
      line.map(([name, value]) => [
        name,
        name.startsWith('eval') ? value : (expect.closeTo(value, 9) as unknown),
      ]),
    );
    expect(exact.tables).toHaveLength(6);
    expect(traces(path)).toEqual({ ...exact, metrics: near });
  };
  let straight: Promise<string> | undefined;
  const oneProcess = () =>
    (straight ??= (async () => {
      await run('train', ...SETTINGS, '--out', join(root, 'one'));
      return join(root, 'one');
    })());

  test('two processes evaluate as one', async () => {
    const path = join(root, 'two');
    await run('train', ...SETTINGS, '--out', path, '--nproc', '2');
    expectSame(path, await oneProcess());
  });

  test('an evaluation that is interrupted is made when the run is resumed', async () => {
    const path = join(root, 'stopped');
    const { child, end } = start(['train', ...SETTINGS, '--out', path, '--nproc', '2']);
    const progress = join(path, 'progress.json');
    await reached(child, end, () => {
      if (!existsSync(progress)) return false;
      const { phase, step } = JSON.parse(readFileSync(progress, 'utf8')) as { phase: string; step: number };
      return phase === 'evaluation' && step === 2;
    });
    child.kill('SIGTERM');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([130, expect.stringMatching(/Interrupted after step 2; resume with/)]);
    // With weights of step 2, which the other process gets first.
    await run('train', '--resume', path, '--nproc', '2');
    expectSame(path, await oneProcess());
  });
});

describe('acoer eval', () => {
  const judge = join(root, 'judge.mjs');
  const heard = join(root, 'judged');
  const words = (out: string) => [
    ...[
      'eval',
      '--model',
      'tiny',
      '--benchmark',
      'tiny',
      '--problems',
      '20',
      '-n',
      '2',
      '--temperature',
      '1',
    ],
    ...['--threads', '1', '--judge', judge, '--out', join(root, out), '--json'],
  ];
  /** What is printed and written, without the name of the folder. */
  const outcome = (out: string, stdout: string) => {
    const read = (name: string) => readFileSync(join(root, out, name), 'utf8').replaceAll(out, 'OUT');
    const files = readdirSync(join(root, out)).sort();
    const answers = read('base.tiny.jsonl').split('\n').sort();
    return {
      ...{ stdout: stdout.replaceAll(out, 'OUT'), files, answers },
      ...{ record: read('base.tiny.json'), summary: read('summary.json') },
    };
  };
  let whole: Promise<ReturnType<typeof outcome>> | undefined;
  const oneProcess = () =>
    (whole ??= (async () => outcome('alone', (await run(...words('alone'))).stdout))());
  beforeAll(() =>
    writeFileSync(
      judge,
      `import { appendFileSync } from 'node:fs';
       export default ({ answer }, { gold }) => {
         appendFileSync(${JSON.stringify(heard)}, process.env.RANK ?? '-');
         return answer.includes(gold);
       };`,
    ),
  );

  test('two processes print and write what one does, each judging its share', async () => {
    const expected = await oneProcess();
    expect(readFileSync(heard, 'utf8')).toBe('-'.repeat(40));
    rmSync(heard);
    const { stdout, stderr } = await run(...words('pair'), '--nproc', '2');
    expect(outcome('pair', stdout)).toEqual(expected);
    expect([...readFileSync(heard, 'utf8')].sort().join('')).toBe('0'.repeat(20) + '1'.repeat(20));
    expect(stderr).toMatch(/base on tiny: 40\/40 answers/);
    expect(stderr).not.toMatch(/rank 1/);
  });

  test('what is interrupted is resumed by another number of processes', async () => {
    const expected = await oneProcess();
    const { child, end } = start([...words('broken'), '--nproc', '2']);
    const lines = join(root, 'broken', 'base.tiny.jsonl');
    const count = () => (existsSync(lines) ? readFileSync(lines, 'utf8').split('\n').length - 1 : 0);
    await reached(child, end, () => count() > 2);
    child.kill('SIGTERM');
    const { code, stderr } = await end;
    expect([code, stderr]).toEqual([130, expect.stringMatching(/to resume, repeat the command with --out/)]);
    const before = count();
    const { stdout, stderr: again } = await run(...words('broken'), '--nproc', '3');
    expect(again).toContain(`${before} of 40 answers were done earlier`);
    expect(outcome('broken', stdout)).toEqual(expected);
  });

  test('--max-restarts: when a process is killed all start again, with what has been answered', async () => {
    const expected = await oneProcess();
    const { child, end } = start([...words('killed'), '--nproc', '2', '--max-restarts', '1']);
    const lines = join(root, 'killed', 'base.tiny.jsonl');
    await reached(child, end, () => existsSync(lines) && readFileSync(lines, 'utf8').includes('\n'));
    process.kill(pidOfRank(child.pid!, 1), 'SIGKILL');
    const { code, stdout, stderr } = await end;
    expect([code, stderr]).toEqual([0, expect.stringMatching(/rank 1 was killed .*: all ranks start again/)]);
    expect(stderr).toMatch(/\d+ of 40 answers were done earlier/);
    expect(outcome('killed', stdout)).toEqual(expected);
    const alone = ['eval', '--model', 'tiny', '--benchmark', 'tiny', '--nproc', '2', '--max-restarts', '1'];
    const refused = await start(alone).end;
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('goes with --out')]);
  });

  test('a mode without a model takes no --nproc', async () => {
    const { code, stderr } = await start(['eval', '--compare', 'a', 'b', '--nproc', '2']).end;
    expect([code, stderr]).toEqual([2, expect.stringMatching(/--nproc cannot be used with --compare/)]);
  });
});

test('acoer doctor --ranks measures processes, and needs several', async () => {
  const { stdout } = await run('doctor', '--ranks', '--json', '--nproc', '2');
  expect(JSON.parse(stdout)).toMatchObject({ sumBytes: 70e6, ranks: [{ rank: 0 }, { rank: 1 }] });
  const alone = await start(['doctor', '--ranks']).end;
  expect([alone.code, alone.stderr]).toEqual([2, expect.stringContaining('give --nproc N')]);
});
