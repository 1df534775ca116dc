/**
 * `scripts/gpu-check` from end to end without a GPU, with tiny sizes: builds, runs, measures and writes its record. Its
 * limits are those of `acoer bench`. Needs cmake, python3 and the built core; skipped elsewhere.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeStepWork, prefillWork, trainWork } from '../src/plan/cost';
import { SHAPES } from '../src/plan/shapes';
import { needs } from './helpers/needs';

const ROOT = join(__dirname, '..');
const SCRIPT = join(ROOT, 'scripts', 'gpu-check');
const CORE = join(ROOT, 'native', 'build', 'libacoer_core.a');

const runs = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const libtorch = spawnSync('node', [join(ROOT, 'scripts/setup.mjs'), '--print'], { encoding: 'utf8' });
const ready = existsSync(CORE) && libtorch.status === 0 && runs('cmake') && runs('python3');

const scratch = mkdtempSync(join(tmpdir(), 'acoer-gpu-check-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const gpuCheck = (...words: string[]) =>
  spawnSync('python3', [SCRIPT, ...words], {
    encoding: 'utf8',
    env: { ...process.env, LIBTORCH: libtorch.stdout.trim() },
  });

interface Timed {
  seconds?: { median: number; min: number; max: number };
  share: number;
  skipped?: string;
}

needs('cmake, python3 and a built core (npm run build)', ready).test(
  'on a CPU: everything passes, and no gate is judged',
  () => {
    const out = join(scratch, 'out');
    const words = ['--device', 'cpu', '--quick', '--core', CORE, '--build', join(scratch, 'build')];
    // A busy machine is no fault of the scripts.
    const patience = ['--limit', '3000', '--test-limit', '600'];
    const { status, stdout, stderr } = gpuCheck(...words, ...patience, '--out', out);
    expect({ status, stderr, failed: /FAIL.*/.exec(stdout)?.[0] }).toEqual({ status: 0, stderr: '' });
    const [json, text, ...lines] = readdirSync(out).sort();
    expect(lines).toEqual(['build.jsonl', 'check.jsonl', 'measure.jsonl']);
    expect(text).toBe(json!.replace('.json', '.md'));
    const record = JSON.parse(readFileSync(join(out, json!), 'utf8')) as {
      format: number;
      machine: Record<string, unknown>;
      build: { passed: boolean; warnings: number };
      check: { items: { name: string; passed: boolean | null }[] };
      measure: {
        kernels: Record<string, { used: string; reason: string }>;
        ceilings: Record<string, { median: number }>;
        decode: { rows: number; context: number; floorSeconds: number; paths: Record<string, Timed> }[];
        train: { paths: Record<string, Timed> };
        step: { paths: Record<string, Timed> };
        parts: object;
        peers: object;
        gates: { result: string; measured: null; reason: string }[];
        problems: string[];
      };
    };
    expect(record.format).toBe(2);
    expect(Object.keys(record.machine)).toEqual(
      expect.arrayContaining(['date', 'commit', 'device', 'card', 'libtorch', 'nvcc', 'compiler', 'cpus']),
    );
    expect(record.build).toMatchObject({
      passed: true,
      warnings: 0,
      limitLibrary: 'this libtorch is a CPU build',
    });
    const kernels = record.check.items.filter(({ name }) => name.startsWith('kernels: '));
    expect(kernels.length).toBeGreaterThan(4);
    expect(kernels.filter(({ passed }) => passed !== true)).toEqual([]);
    const { measure } = record;
    expect(measure.problems).toEqual([]);
    expect(measure.kernels.acoer).toEqual({ used: 'aten', reason: expect.stringContaining('CPU') as string });
    expect(measure.ceilings.copyBytesPerSecond!.median).toBeGreaterThan(1e8);
    expect(measure.decode.map(({ rows, context }) => [rows, context])).toEqual([[1, 40], [1, 72], [3, 40], [3, 72]]); // prettier-ignore
    for (const { floorSeconds, paths } of measure.decode) {
      for (const { seconds, share, skipped } of [paths.acoer!, paths.aten!]) {
        // Long runs less short ones: neighbours on the machine can make the difference negative.
        if (seconds === undefined) expect(skipped).toBe('the machine was too busy: fewer steps took longer');
        else expect(share).toBeCloseTo(floorSeconds / seconds.median, 9);
      }
    }
    for (const work of [measure.train, measure.step]) expect(work.paths.aten!.share).toBeGreaterThan(0);
    expect(measure.gates).toHaveLength(4);
    for (const gate of measure.gates) expect(gate).toMatchObject({ result: 'not judged', measured: null });
    const markdown = readFileSync(join(out, text!), 'utf8');
    expect(markdown).toContain('a check of the scripts');
    expect(markdown).toMatch(/\| H100-class: decode 96 x 4,096 \| 55% \| - \| not judged/);
  },
  10 * 60_000,
);

const python = (code: string) =>
  spawnSync('python3', ['-c', `import json, sys; sys.path.insert(0, 'scripts/gpu')\n${code}`], {
    encoding: 'utf8',
    cwd: ROOT,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' },
  });

needs('python3', runs('python3')).describe('without building', () => {
  test('the limits are those of the plan and the bench', () => {
    const shape = SHAPES['qwen3-1.7b'];
    const { stdout } = python(
      `import floors\ns = json.loads('${JSON.stringify(shape)}')\n` +
        'print(json.dumps([floors.decode_step(s, 16, 1024, 2, 16), floors.prefill(s, 150, 2), floors.training(s, 8, 150, 1024, 2, 16)]))',
    );
    const sequences = new Array(8).fill({ tokens: 1174, completionTokens: 1024 });
    const options = { bytesPerElement: 2, loraRank: 16 };
    const expected = [
      decodeStepWork(shape, new Array<number>(16).fill(1024), options),
      prefillWork(shape, 150, 2),
      trainWork(shape, sequences, { ...options, recompute: false }),
    ];
    expect(JSON.parse(stdout)).toEqual(expected.map(({ flops, bytes }) => [flops, bytes]));
  });

  test('a gate is judged on a card of its class, from what was measured', () => {
    const { stdout } = python(
      "import gates\nprint(json.dumps(gates.judge({'computeCapability': '9.0'}, {(16, 1024): .4, (96, 4096): .5}, .3)))",
    );
    const judged = JSON.parse(stdout) as { gate: string; result: string }[];
    expect(judged.map(({ gate, result }) => [gate, result])).toEqual([
      ['A6000-class: decode 16 x 1,024', 'not judged'],
      ['A6000-class: training', 'not judged'],
      ['H100-class: decode 16 x 1,024', 'pass'],
      ['H100-class: decode 96 x 4,096', 'fail'],
    ]);
  });

  test.each([
    [
      ['--device', 'cpu', 'nothing'],
      'there is no part nothing; choose of build, check, measure, sanitize, profile',
    ],
    [['measure', '--device', 'cpu', '--build', join(scratch, 'empty')], 'run scripts/gpu-check build first'],
  ])('%j is refused', (words, message) => {
    if (!ready) return;
    const { status, stderr } = gpuCheck(...words);
    expect(status).toBe(2);
    expect(stderr).toContain(message);
  });
});
