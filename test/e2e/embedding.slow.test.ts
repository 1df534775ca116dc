/** The package inside another program: an empty project with the packed tarball installed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { ROOT } from '../helpers/cli';
import { EmbeddingProject } from '../helpers/embedding';

const project = new EmbeddingProject();
beforeAll(() => project.install());
afterAll(() => project.remove());

/** A short run without evaluations. */
const SHORT = '{ maxSteps: 3, evalProblems: 0, evalSampledProblems: 0 }';

describe('before the addon is built', () => {
  test('the package contains what setup needs, and nothing that should not be shipped', () => {
    for (const path of ['dist/index.js', 'dist/index.d.ts', 'native/CMakeLists.txt', 'scripts/setup.mjs']) {
      expect(existsSync(join(project.package, path))).toBe(true);
    }
    for (const path of ['src', 'test', 'node_modules', 'build']) {
      expect(existsSync(join(project.package, path))).toBe(false);
    }
  });

  test('first use names the command to run', () => {
    const error = project.program<{ code: string; message: string }>(
      'first.cjs',
      `const { createEngine } = require('acoer');
       createEngine().catch(({ code, message }) => console.log(JSON.stringify({ code, message })));`,
    );
    expect(error.code).toBe('LOAD_FAILED');
    expect(error.message).toContain('npx acoer setup');
  });

  test('everything that needs no engine works; a run and the doctor name the command to run', () => {
    const { correct, code, message } = project.program<Record<string, unknown>>(
      'pure.mjs',
      `import { train, verifyAnswer } from 'acoer';
       const { correct } = verifyAnswer('1/2', '\\\\boxed{0.5}');
       const run = train({ model: 'tiny', maxSteps: 1 }, { out: 'not-begun' }).then((run) => run.result());
       const { code, message } = await run.catch((error) => error);
       console.log(JSON.stringify({ correct, code, message }));`,
    );
    expect({ correct, code }).toEqual({ correct: true, code: 'LOAD_FAILED' });
    expect(message).toContain('npx acoer setup');
    const doctor = project.run('npx', '--no-install', 'acoer', 'doctor');
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toMatch(/^problem: the native addon is not built: run `npx acoer setup`\.$/m);
  });

  test('the command exists and names it too', () => {
    expect(project.run('npx', '--no-install', 'acoer', '--version').stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    const { code, stdout, stderr } = project.run('npx', '--no-install', 'acoer', 'score', '--model', 'tiny');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('npx acoer setup');
  });
});

describe('with the addon built', () => {
  beforeAll(() => project.addBuiltAddon());

  test('ESM: the loop from the documentation', () => {
    const { steps, summary } = project.program<{
      steps: { index: number; reward: number }[];
      summary: object;
    }>(
      'loop.mjs',
      `import { train } from 'acoer';
       const run = await train({ model: 'tiny', reward: 'acoer', ...${SHORT} });
       const steps = [];
       for await (const step of run) steps.push({ index: step.index, reward: step.metrics.reward });
       console.log(JSON.stringify({ steps, summary: await run.result() }));`,
    );
    expect(steps.map(({ index }) => index)).toEqual([1, 2, 3]);
    for (const { reward } of steps) expect(Number.isFinite(reward)).toBe(true);
    expect(Object.keys(summary)).toEqual(expect.arrayContaining(['base', 'trained']));
  });

  test('CommonJS: a custom reward, which may be async', () => {
    const { seen, mean } = project.program<{ seen: number; mean: number[] }>(
      'reward.cjs',
      `const { registerReward, train } = require('acoer');
       let seen = 0;
       registerReward('shorter', async (rollout, group) => {
         seen += 1;
         const longest = Math.max(...group.rollouts.map((other) => other.totalTokens));
         return rollout.totalTokens === longest ? 0 : 1;
       });
       (async () => {
         const run = await train({ model: 'tiny', reward: 'shorter', formatWeight: 0, ...${SHORT} });
         const mean = [];
         for await (const step of run) mean.push(step.metrics['rewards/shorter/mean']);
         console.log(JSON.stringify({ seen, mean }));
       })();`,
    );
    // 3 steps of 8 prompts x 4 completions; in each group at least one completion is the longest.
    expect(seen).toBe(96);
    expect(mean).toHaveLength(3);
    for (const value of mean) {
      expect(value).toBeGreaterThan(0);
      expect(value).toBeLessThanOrEqual(0.75);
    }
  });

  test('AbortSignal ends a run at once, and the run can be resumed', () => {
    const { code, before, after } = project.program<{ code: string; before: number; after: number[] }>(
      'abort.mjs',
      `import { train } from 'acoer';
       const controller = new AbortController();
       const run = await train({ model: 'tiny', ...${SHORT}, maxSteps: 6, saveSteps: 1 }, { out: 'aborted', signal: controller.signal });
       let before = 0, code = null;
       try {
         for await (const step of run) {
           before = step.index;
           if (before === 2) setTimeout(() => controller.abort(), 5);
         }
       } catch (error) {
         code = error.code;
       }
       const after = [];
       for await (const step of await train({}, { resume: 'aborted' })) after.push(step.index);
       console.log(JSON.stringify({ code, before, after }));`,
    );
    expect(code).toBe('INTERRUPTED');
    expect(before).toBeGreaterThanOrEqual(2);
    expect(before).toBeLessThan(6);
    expect(after.at(-1)).toBe(6);
    expect(after).toEqual(Array.from(after, (_, i) => after[0]! + i));
  });

  test('two runs one after another in one process give the same numbers', () => {
    const [first, second] = project.program<number[][]>(
      'twice.cjs',
      `const { train } = require('acoer');
       (async () => {
         const losses = [];
         for (const out of ['first', 'second']) {
           const run = await train({ model: 'tiny', threads: 1, ...${SHORT} }, { out });
           const own = [];
           for await (const step of run) own.push(step.metrics.loss, step.metrics.reward, step.metrics.grad_norm);
           losses.push(own);
         }
         console.log(JSON.stringify(losses));
       })();`,
    );
    expect(first).toHaveLength(9);
    expect(second).toEqual(first);
  });

  test('two engines at once do not disturb each other', () => {
    const { alone, together } = project.program<{ alone: number[][]; together: number[][][] }>(
      'engines.mjs',
      `import { createEngine, resolveModel } from 'acoer';
       const { directory } = await resolveModel('tiny');
       async function draw() {
         const engine = await createEngine({ device: 'cpu', threads: 1 });
         const model = await engine.loadModel(directory);
         const { sequences } = await model.generate([{ promptIds: Int32Array.of(1, 2, 3), numSamples: 8, seed: 7n,
           maxNewTokens: 60, stopIds: Int32Array.of() }]);
         await engine.dispose();
         return sequences.map(({ ids }) => Array.from(ids));
       }
       const alone = await draw();
       const together = await Promise.all([draw(), draw()]);
       console.log(JSON.stringify({ alone, together }));`,
    );
    expect(alone).toHaveLength(8);
    expect(together).toEqual([alone, alone]);
  });

  test('two training runs at once', () => {
    const ends = project.program<number[]>(
      'parallel.mjs',
      `import { train } from 'acoer';
       const go = async (out, reward) => {
         let last = 0;
         for await (const step of await train({ model: 'tiny', reward, threads: 1, ...${SHORT} }, { out })) last = step.index;
         return last;
       };
       console.log(JSON.stringify(await Promise.all([go('left', 'acoer'), go('right', 'acc')])));`,
    );
    expect(ends).toEqual([3, 3]);
  });
});

describe('TypeScript', () => {
  const text = `
    import { AcoerError, createEngine, registerReward, train } from 'acoer';
    import type { Engine, StepMetrics, TrainStep } from 'acoer';

    export async function loop(signal: AbortSignal): Promise<StepMetrics[]> {
      registerReward('mine', (rollout, group) => (rollout.correct ? 1 : 0) / group.rollouts.length);
      const run = await train({ model: 'tiny', reward: 'mine', maxSteps: 100 }, { signal });
      const all: StepMetrics[] = [];
      for await (const step of run) {
        const { index, metrics }: TrainStep = step;
        if (index > 0) all.push(metrics);
      }
      const { trained } = await run.result();
      if (trained.greedy !== null && trained.greedy.accuracy < 0.5) throw new AcoerError('INTERNAL', 'bad');
      return all;
    }

    export async function score(directory: string): Promise<Float64Array> {
      const engine: Engine = await createEngine({ device: 'cpu' });
      const model = await engine.loadModel(directory, { dtype: 'float32' });
      const packed = { ids: Int32Array.of(1, 2), offsets: Int32Array.of(0, 2), promptLengths: Int32Array.of(1) };
      return (await model.score(packed)).logprobs;
    }
  `;
  const wrong = `
    import { train } from 'acoer';
    // @ts-expect-error a loss is given by its name
    void train({ model: 'tiny', lossType: 3 });
    // @ts-expect-error steps are counted by number
    void train({ maxSteps: 'many' });
    // @ts-expect-error a signal is an option
    void train({ signal: new AbortController().signal });
  `;

  test.each([
    ['node16', 'node16'],
    ['esnext', 'bundler'],
  ])('a small program type-checks under module %s, resolution %s', (module, moduleResolution) => {
    project.write('program.mts', text);
    project.write('wrong.mts', wrong);
    project.write(
      'tsconfig.json',
      JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          target: 'es2022',
          module,
          moduleResolution,
          types: ['node'],
          typeRoots: [join(ROOT, 'node_modules', '@types')],
        },
        files: ['program.mts', 'wrong.mts'],
      }),
    );
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    expect(project.run(process.execPath, tsc, '-p', '.')).toEqual({ code: 0, stdout: '', stderr: '' });
  });
});
