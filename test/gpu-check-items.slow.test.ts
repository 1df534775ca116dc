/**
 * What `scripts/gpu-check` makes of crashes, hangs and time that runs out, with stand-ins for the programs that it runs
 * and for NVIDIA's: no GPU, no build.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fakeProgram, libtorchFiles, temporaryFolder, writeTree } from './helpers/fake-libtorch';
import { needs } from './helpers/needs';

const ROOT = join(__dirname, '..');
const SCRIPT = join(ROOT, 'scripts', 'gpu-check');
const can = ['python3', 'cmake'].every((program) => spawnSync(program, ['--version']).status === 0);

interface Item {
  name: string;
  passed: boolean | null;
  seconds: number;
  result: string;
  tail?: string[];
}

const folder = temporaryFolder();
const libtorch = writeTree(join(folder, 'libtorch'), {
  ...libtorchFiles('2.14.1'),
  'lib/libtorch_cuda.so': 'not a library',
});
const tools = join(folder, 'tools');
fakeProgram(tools, 'nvidia-smi', 'echo "Stand-in, 580.65.06, 80000 MiB, 9.0, Default"');
// The golden tests would set this checkout up for that libtorch.
for (const name of ['node', 'npx']) fakeProgram(tools, name, 'echo "golden tests: fine"');

/** A folder with the three programs; a script answers with its first matching line of `cases`. */
function programs(cases: { engine?: string; kernels?: string; measure?: string }): string {
  const build = join(temporaryFolder(), 'build');
  const script = (text = '') => `case "$*" in\n${text}\n*) echo "1 of 1 tests passed";;\nesac`;
  fakeProgram(build, 'acoer-check', script(cases.engine ?? '*--list*) echo device_fine;;'));
  fakeProgram(
    build,
    'acoer-check-kernels',
    script(cases.kernels ?? '*--list*) echo norm;;\n*--kernels*) ;;'),
  );
  fakeProgram(build, 'acoer-measure', script(cases.measure));
  return build;
}

const environment = { ...process.env, LIBTORCH: libtorch, PATH: `${tools}:${process.env.PATH}` };

function gpuCheck(build: string, ...words: string[]) {
  const out = join(build, 'out');
  const all = [SCRIPT, '--build', build, '--out', out, ...words];
  const { status, stdout, stderr } = spawnSync('python3', all, { encoding: 'utf8', env: environment });
  return { status, stdout, stderr, out };
}

const linesOf = (out: string, part: string): Item[] =>
  readFileSync(join(out, `${part}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Item);
const resultOf = (items: Item[], name: string) => items.find((item) => item.name === name);

const isRunning = (text: string): boolean =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text);
      } catch {
        return false; // it ended meanwhile
      }
    });

needs('python3 and cmake', can).describe('scripts/gpu-check with stand-ins', () => {
  test('a crash, a hang or a failure costs that test only', () => {
    const build = programs({
      engine: `*--list*) echo cpu_only device_fine device_crash device_hang device_wrong gpu_kernels_fine;;
*device_crash) echo "half a line"; kill -SEGV $$;;
*device_hang) sleep 4321.5; echo never;;
*device_wrong) echo "FAIL device_wrong (3 ms): 2 is not 1"; exit 1;;
*cpu_only*) exit 9;;`,
      kernels: '*--list*) echo norm;;\n*--kernels*) echo acoer_norm;;\n*) echo "launched: acoer_norm";;',
    });
    const { status, stdout, stderr, out } = gpuCheck(build, 'check', '--test-limit', '3');
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
    const items = linesOf(out, 'check');
    expect(resultOf(items, 'engine: device_crash')).toMatchObject({
      passed: false,
      result: 'ended by SIGSEGV after: half a line',
      tail: ['half a line'],
    });
    expect(resultOf(items, 'engine: device_hang')).toMatchObject({
      passed: false,
      result: 'stopped after 3 s: it hangs or is too slow (--test-limit)',
    });
    expect(isRunning('4321.5')).toBe(false);
    expect(resultOf(items, 'engine: device_wrong')).toMatchObject({
      passed: false,
      result: 'FAIL device_wrong (3 ms): 2 is not 1',
    });
    const passed = items.filter((item) => item.passed).map((item) => item.name);
    expect(passed.sort()).toEqual([
      'engine: device_fine',
      'engine: gpu_kernels_fine',
      'golden tests of the addon (Jest)',
      'kernels: every kernel was launched',
      'kernels: norm',
    ]);
    expect(items.some(({ name }) => name.includes('cpu_only'))).toBe(false);
    expect(stdout).toContain('check    5 passed, 3 failed, 0 skipped');
    const record = readdirSync(out).find((name) => name.endsWith('-stand-in.md'))!;
    expect(readFileSync(join(out, record), 'utf8')).toContain('| engine: device_crash | **FAIL** |');
  });

  test('what the time of a part does not reach is listed with the reason, and is no failure', () => {
    const build = programs({ engine: '*--list*) echo device_a device_b device_c;;\n*device_b) sleep 600;;' });
    const { status, out } = gpuCheck(build, 'check', '--limit', '8', '--test-limit', '600', '--jobs', '1');
    expect(status).toBe(0);
    const engine = linesOf(out, 'check').filter(({ name }) => name.startsWith('engine: '));
    expect(engine).toHaveLength(3);
    expect(engine[0]).toMatchObject({ name: 'engine: device_a', passed: true });
    expect(engine.at(-1)).toMatchObject({
      passed: null,
      seconds: 0,
      result: 'the 8 s of this part are over (--limit)',
    });
    // Cut off by the end of the part: it has not failed, either.
    expect(resultOf(engine, 'engine: device_b')).toMatchObject({
      passed: null,
      result: expect.stringMatching(/^not finished after \d+ s: the 8 s of this part are over/) as string,
    });
  });

  test('programs that cannot be listed fail, and a kernel that no test launched does', () => {
    const broken = programs({ engine: '*) echo "libtorch_cuda.so: not found"; exit 127;;' });
    const first = gpuCheck(broken, 'check');
    expect(first.status).toBe(1);
    expect(resultOf(linesOf(first.out, 'check'), 'engine: all tests')).toMatchObject({
      passed: false,
      result: 'its tests cannot be listed: libtorch_cuda.so: not found',
    });
    const kernels =
      '*--list*) echo norm adamw;;\n*--kernels*) echo a b c;;\n*norm) echo "launched: a";;\n*adamw) echo "launched: b";;';
    const second = gpuCheck(programs({ kernels }), 'check');
    expect(second.status).toBe(1);
    expect(resultOf(linesOf(second.out, 'check'), 'kernels: every kernel was launched')).toMatchObject({
      passed: false,
      result: 'not launched: c',
    });
  });

  test('the memory-limit check does not count where no limit could be set', () => {
    const name = 'device_out_of_memory_leaves_everything_usable';
    const build = programs({
      engine: `*--list*) echo ${name};;\n*--exact*) echo "     without a limit: no toolkit"; echo "1 of 1 tests passed";;`,
    });
    const { status, out } = gpuCheck(build, 'check', '--only', 'memory');
    expect(status).toBe(0);
    expect(resultOf(linesOf(out, 'check'), `engine: ${name}`)).toMatchObject({
      passed: null,
      result: 'everything but the limit: without a limit: no toolkit',
    });
  });

  test('a sanitizer that finds something fails, one that is slow is not finished', () => {
    const build = programs({});
    const found = '*sampler_options) echo "========= Invalid __global__ write"; exit 3;;';
    const slow = '*advance) sleep 60;;';
    fakeProgram(tools, 'compute-sanitizer', `case "$*" in\n${found}\n${slow}\n*) echo clean;;\nesac`);
    const { status, out } = gpuCheck(build, 'sanitize', '--limit', '8', '--jobs', '4', '--only', 'memcheck');
    expect(status).toBe(1);
    const items = linesOf(out, 'sanitize');
    expect(resultOf(items, 'memcheck: sampler_options')).toMatchObject({
      passed: false,
      result: '========= Invalid __global__ write',
    });
    expect(resultOf(items, 'memcheck: advance')).toMatchObject({
      passed: null,
      result: expect.stringContaining('not finished after') as string,
    });
    expect(items.filter(({ passed }) => passed === true).length).toBeGreaterThan(6);
  });

  test('measure keeps each figure as it comes, also of a program that hangs then', () => {
    const shape =
      '"vocabSize":100,"hiddenSize":64,"intermediateSize":64,"numLayers":1,"numHeads":1,"numKvHeads":1,"headDim":64';
    const facts = `{"kind":"facts","kernels":"acoer","kernelsReason":"","shape":{${shape}},"loraRank":16,"bytesPerElement":2}`;
    const figures = [
      facts,
      '{"kind":"ceilings","copyBytesPerSecond":1e12,"matmulFlopsPerSecond":1e14}',
      '{"kind":"decode","rows":16,"context":1024,"steps":48,"seconds":0.48}',
    ];
    const build = programs({
      measure: `*) ${figures.map((line) => `echo '${line}'`).join('; ')}; printf '{"kind":"tra'; sleep 60;;`,
    });
    const { out } = gpuCheck(build, 'measure', '--limit', '8');
    const kept = readFileSync(join(out, 'measure.jsonl'), 'utf8').trim().split('\n');
    expect(kept.slice(0, 3).map((line) => JSON.parse(line) as object)).toEqual(
      figures.map((line) => ({ program: 'acoer-measure (acoer)', ...(JSON.parse(line) as object) })),
    );
    const json = readdirSync(out).find((name) => name.endsWith('.json'))!;
    const { measure, machine } = JSON.parse(readFileSync(join(out, json), 'utf8')) as {
      machine: { commit: string };
      measure: {
        decode: { paths: Record<string, { seconds?: { median: number } }> }[];
        problems: string[];
        notRun: string[];
      };
    };
    expect(measure.decode[0]!.paths.acoer!.seconds!.median).toBeCloseTo(0.01, 9);
    expect(measure.problems).toEqual([]);
    expect(measure.notRun[0]).toMatch(/^acoer-measure \(acoer\): not finished after \d s/);
    expect(machine.commit).not.toBe('');
  });

  test('profile keeps the table of ncu, whatever its exit code', () => {
    fakeProgram(
      tools,
      'ncu',
      `echo "==PROF== Connected"; echo '"ID","Kernel Name"'; echo '"0","acoer_norm_bf16"'; exit 9`,
    );
    const { status, out } = gpuCheck(programs({}), 'profile');
    expect(status).toBe(0);
    expect(readFileSync(join(out, 'profile.csv'), 'utf8')).toBe(
      '"ID","Kernel Name"\n"0","acoer_norm_bf16"\n',
    );
    expect(linesOf(out, 'profile')[0]).toMatchObject({ passed: true, result: '1 lines in profile.csv' });
  });

  test('ended by a signal, it stops what runs and writes what there is', async () => {
    const build = programs({
      engine: '*--list*) echo device_first device_second;;\n*device_second) sleep 4322.5;;',
    });
    const out = join(build, 'out');
    const words = [SCRIPT, 'check', '--build', build, '--out', out, '--jobs', '1', '--test-limit', '600'];
    const running = spawn('python3', words, { env: environment, stdio: 'pipe' });
    const ended = new Promise<number | null>((resolve) => running.on('exit', resolve));
    await new Promise<void>((resolve) => {
      running.stdout.on('data', (text: Buffer) => {
        if (text.includes('device_first')) resolve();
      });
    });
    while (!isRunning('4322.5')) await new Promise((resolve) => setTimeout(resolve, 20));
    running.kill('SIGTERM');
    expect(await ended).toBe(1);
    expect(isRunning('4322.5')).toBe(false);
    const items = linesOf(out, 'check');
    expect(resultOf(items, 'engine: device_first')).toMatchObject({ passed: true });
    expect(resultOf(items, 'engine: device_second')).toMatchObject({
      passed: null,
      result: 'not finished: gpu-check was ended by SIGTERM',
    });
    expect(readdirSync(out).some((name) => name.endsWith('-stand-in.json'))).toBe(true);
  });

  test('a record has what other commands left, but not of other sources', () => {
    const build = programs({});
    const partsOf = (...words: string[]) => {
      const { out } = gpuCheck(build, ...words);
      const json = readdirSync(out).find((name) => name.endsWith('-stand-in.json'))!;
      return Object.keys(JSON.parse(readFileSync(join(out, json), 'utf8')) as object).filter(
        (key) => !['format', 'machine'].includes(key),
      );
    };
    const left = (of: object) =>
      writeFileSync(join(build, 'results', 'check.json'), JSON.stringify({ of, found: { items: [] } }));
    expect(partsOf('profile')).toEqual(['profile']);
    left({ commit: 'another', device: 'cuda' });
    expect(partsOf('profile')).toEqual(['profile']);
    const { of } = JSON.parse(readFileSync(join(build, 'results', 'profile.json'), 'utf8')) as { of: object };
    left({ ...of, device: 'cpu' });
    expect(partsOf('profile')).toEqual(['profile']);
    left(of);
    expect(partsOf('profile')).toEqual(['check', 'profile']);
  });

  test('where there is no git the record has the commit that was given', () => {
    const code = `import sys; sys.path.insert(0, 'scripts/gpu'); import machine
machine.output_of = lambda *words: ''
print(machine.commit_of('c79f7ff'), machine.commit_of(None))`;
    const { stdout } = spawnSync('python3', ['-B', '-c', code], { encoding: 'utf8', cwd: ROOT });
    expect(stdout).toBe('c79f7ff unknown\n');
  });

  test('a toolkit that fits makes libacoer_cuda.so one of the targets', () => {
    const build = join(temporaryFolder(), 'build');
    const log = join(build, 'words');
    const withCmake = temporaryFolder();
    const configured = join(withCmake, 'configured');
    fakeProgram(
      withCmake,
      'cmake',
      `echo "$@" >> ${log}; case "$*" in *-S*) cat ${configured};; esac; mkdir -p ${build}; touch ${build}/acoer-measure ${build}/acoer-check-kernels`,
    );
    const targetsAfter = (said: string) => {
      writeTree(withCmake, { configured: said });
      const words = [SCRIPT, 'build', '--build', build, '--out', join(build, 'out')];
      const env = { ...environment, PATH: `${withCmake}:${environment.PATH}` };
      expect(spawnSync('python3', words, { encoding: 'utf8', env })).toMatchObject({ status: 0 });
      return readFileSync(log, 'utf8').trim().split('\n').at(-1)!.split('--target ')[1];
    };
    expect(existsSync(build)).toBe(false);
    expect(targetsAfter('-- fine\n')).toBe('acoer-check acoer-check-kernels acoer-measure acoer_cuda');
    const reason = 'the toolkit is CUDA 12, but libtorch was built for CUDA 13';
    expect(targetsAfter(`-- libacoer_cuda.so is left out: ${reason}\n`)).toBe(
      'acoer-check acoer-check-kernels acoer-measure',
    );
    const built = JSON.parse(readFileSync(join(build, 'out', 'build.jsonl'), 'utf8')) as object;
    expect(built).toMatchObject({ passed: true, limitLibrary: reason });
  });
});
