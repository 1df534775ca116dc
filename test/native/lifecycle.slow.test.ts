/** How engines end: dispose, process ends of every kind, worker threads, Jest's reloads. */
import { readdirSync } from 'node:fs';

import type { Engine } from '../../src/engine/types';
import { createEngine } from '../../src/engine/engine';
import type * as EngineModule from '../../src/engine/engine';
import { endless, failureOf, sequences, timed } from '../helpers/engine-calls';
import { ADDON, runChild } from '../helpers/engine-child';
import { randomModel } from '../helpers/random-model';

const directory = randomModel();

/** A call of this model takes many seconds unless it is cancelled. */
const slowDirectory = randomModel({ vocabSize: 2048, hiddenSize: 128, intermediateSize: 256, numLayers: 4 });

describe('dispose', () => {
  test('is idempotent, also at the same time and after the end', async () => {
    const engine = await createEngine({ device: 'cpu', threads: 1 });
    await Promise.all([engine.dispose(), engine.dispose()]);
    await engine.dispose();
  });

  test('ends what runs and what waits with DISPOSED, then refuses', async () => {
    const engine = await createEngine({ device: 'cpu', threads: 1 });
    const model = await engine.loadModel(slowDirectory);
    const running = failureOf(() => endless(model));
    const waiting = failureOf(() => model.score(sequences()));
    await new Promise((done) => setTimeout(done, 50));
    const { elapsedMs } = await timed(() => engine.dispose());
    expect(elapsedMs).toBeLessThan(2000);
    expect(await running).toMatchObject({ code: 'DISPOSED' });
    expect(await waiting).toMatchObject({ code: 'DISPOSED' });
    for (const use of [
      () => model.score(sequences()),
      () => engine.memory(),
      () => engine.loadModel(directory),
    ]) {
      expect(await failureOf(use)).toMatchObject({ code: 'DISPOSED' });
    }
    await model.dispose();
  });

  test('while tokens are being reported: nothing is reported after the call has ended', async () => {
    const engine = await createEngine({ device: 'cpu', threads: 1 });
    const model = await engine.loadModel(slowDirectory);
    let reports = 0;
    let atEnd = 0;
    const onProgress = (): void => void reports++;
    const running = failureOf(() => endless(model, { onProgress, progressEveryMs: 0 })).then((failure) => {
      atEnd = reports;
      return failure;
    });
    while (reports < 3) await new Promise((done) => setTimeout(done, 5));
    await engine.dispose();
    expect(await running).toMatchObject({ code: 'DISPOSED' });
    await new Promise((done) => setTimeout(done, 50));
    expect(reports).toBe(atEnd);
  });

  test('await using ends engine, model and policy in order', async () => {
    let kept: Engine;
    {
      await using engine = await createEngine({ device: 'cpu', threads: 1 });
      await using model = await engine.loadModel(directory);
      await using policy = await model.createPolicy({ kind: 'full' });
      await policy.zeroGradients();
      kept = engine;
    }
    expect(await failureOf(() => kept.memory())).toMatchObject({ code: 'DISPOSED' });
  });

  test('many engines made and ended leave no thread behind', async () => {
    const threads = (): number => readdirSync('/proc/self/task').length;
    const before = threads();
    for (let i = 0; i < 20; i++) {
      await using engine = await createEngine({ device: 'cpu', threads: 1 });
      await engine.memory();
    }
    expect(threads()).toBeLessThanOrEqual(before + 1);
  });
});

test('many calls share a signal without a warning, and it cancels all of them', async () => {
  await using engine = await createEngine({ device: 'cpu', threads: 1 });
  const model = await engine.loadModel(slowDirectory);
  const warnings: Error[] = [];
  const onWarning = (warning: Error) => void warnings.push(warning);
  process.on('warning', onWarning);
  const controller = new AbortController();
  const { signal } = controller;
  await Promise.all(Array.from({ length: 30 }, () => model.score(sequences(), { signal })));
  const calls = Array.from({ length: 30 }, () => failureOf(() => endless(model, { signal })));
  await new Promise((done) => setTimeout(done, 50));
  controller.abort();
  for (const failure of await Promise.all(calls)) expect(failure).toMatchObject({ code: 'CANCELLED' });
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
});

describe('the process', () => {
  test('ends by itself with an idle engine, exit code 0', async () => {
    const result = await runChild('await load();', { model: directory });
    expect(result).toMatchObject({ code: 0, signal: null, stderr: '' });
  });

  test('stays alive while a call is pending', async () => {
    const result = await runChild(
      `const { engine, model } = await load();
       engine.memory().then(() => console.log('answered'));`,
      { model: directory },
    );
    expect(result).toMatchObject({ code: 0, stdout: 'answered\n', stderr: '' });
  });

  const train = `
    const { engine, model } = await load();
    const { policy } = await engine.createPolicy({ model, kind: 'full', rank: 0, alpha: 0, rslora: false, dropout: 0, targets: [], matrices: [],
      seed: 0n, beta1: 0.9, beta2: 0.99, eps: 1e-8 });
    const length = 2000;
    const batch = { ids: new Int32Array(length).fill(5), offsets: Int32Array.of(0, length),
      promptLengths: Int32Array.of(1) };
    const dLogprobs = new Float64Array(length - 1).fill(-1);
    for (let i = 0; i < 50; i++) {
      engine.forward({ ...batch, policy, temperature: 1, dropoutSeed: null, job: 3 });
      engine.backward({ policy, dLogprobs, job: 4 });
    }`;
  const calls: [string, string][] = [
    ['generate', 'endless(await load());'],
    ['generate with a report after every token', 'endless(await load(), () => {}, () => {});'],
    ['forward and backward', train],
  ];

  /**
   * Prints, after the addon's own 'exit' listener, whether an engine's thread is left. One that has been
   * joined may be listed a moment longer.
   */
  const tellEnginesAtExit = `
    process.on('exit', () => {
      const { execSync } = require('node:child_process');
      const runs = () => execSync('cat /proc/$PPID/task/*/comm 2>/dev/null || true').includes('acoer-engine');
      const end = Date.now() + 1000;
      while (runs() && Date.now() < end);
      console.log(runs() ? 'an engine is left' : 'no engine is left');
    });`;

  /** Defines `startWorker()` in a script: a thread that posts a message in the middle of `call`. */
  function startWorkerWith(call: string): string {
    const worker = `
      const { parentPort, workerData } = require('node:worker_threads');
      const addon = require(workerData.addon);
      const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 };
      const { described } = workerData;
      ${'${prelude}'}
      (async () => { ${call} setTimeout(() => parentPort.postMessage('running'), 50); })();`;
    return `
      const { Worker } = require('node:worker_threads');
      const prelude = load.toString() + '\\n' + endless.toString();
      const source = ${JSON.stringify(worker)}.replace('\${prelude}', () => prelude);
      const startWorker = () => new Worker(source, { eval: true,
        workerData: { addon: ${JSON.stringify(ADDON)}, described } });`;
  }

  describe.each(calls)('in the middle of %s', (_name, call) => {
    test('no engine is left when libtorch is unloaded', async () => {
      const script = `${tellEnginesAtExit} ${call} setTimeout(() => process.exit(7), 150);`;
      const result = await runChild(script, { model: slowDirectory });
      expect(result).toMatchObject({ code: 7, signal: null, stdout: 'no engine is left\n', stderr: '' });
    });

    test.each([0, 7])('process.exit(%d) gives that code', async (code) => {
      const result = await runChild(`${call} setTimeout(() => process.exit(${code}), 150);`, {
        model: slowDirectory,
      });
      expect(result).toMatchObject({ code, signal: null, stderr: '' });
      expect(result.elapsedMs).toBeLessThan(10_000);
    });

    test('an uncaught exception gives 1 and the usual message', async () => {
      const script = `${call} setTimeout(() => { throw new Error('on purpose'); }, 150);`;
      const result = await runChild(script, { model: slowDirectory });
      expect(result).toMatchObject({ code: 1, signal: null });
      expect(result.stderr).toContain('Error: on purpose');
      expect(result.stderr).not.toMatch(/terminate called|FATAL|Segmentation/);
    });

    test('SIGINT ends it as a signal does', async () => {
      const script = `${call} setTimeout(() => console.log('running'), 150);`;
      const result = await runChild(script, { model: slowDirectory, kill: 'SIGINT' });
      expect(result).toMatchObject({ code: null, signal: 'SIGINT', stderr: '' });
    });

    test('a SIGINT handler can dispose and leave', async () => {
      const script = `
        let made;
        const Engine = addon.Engine;
        addon.Engine = class extends Engine { constructor(...args) { super(...args); made = this; } };
        process.on('unhandledRejection', (error) => { if (error.code !== 'DISPOSED') throw error; });
        process.on('SIGINT', async () => { await made.dispose(); process.exitCode = 130; clearInterval(alive); });
        const alive = setInterval(() => {}, 1000);
        ${call} setTimeout(() => console.log('running'), 150);`;
      const result = await runChild(script, { model: slowDirectory, kill: 'SIGINT' });
      expect(result).toMatchObject({ code: 130, signal: null, stderr: '' });
    });

    test('a worker thread can be terminated, again and again, and the process goes on', async () => {
      const script = `
        ${startWorkerWith(call)}
        for (let round = 0; round < 4; round++) {
          const workers = [startWorker(), startWorker()];
          await Promise.all(workers.map((w) => new Promise((done, fail) => { w.on('message', done); w.on('error', fail); })));
          await Promise.all(workers.map((w) => w.terminate()));
        }
        const { engine, model } = await load();
        await engine.memory();
        await engine.dispose();
        console.log('went on');`;
      const result = await runChild(script, { model: slowDirectory });
      expect(result).toMatchObject({ code: 0, signal: null, stdout: 'went on\n', stderr: '' });
    });
  });

  test('process.exit while the engine of a worker thread trains', async () => {
    const script = `
      ${tellEnginesAtExit} ${startWorkerWith(train)}
      startWorker().on('message', () => process.exit(7));`;
    const result = await runChild(script, { model: slowDirectory });
    expect(result).toMatchObject({ code: 7, signal: null, stdout: 'no engine is left\n', stderr: '' });
  });

  test.each([
    ['onSequence', '() => process.exit(9)'],
    ['onProgress', '() => {}, () => process.exit(9)'],
  ])('process.exit inside %s', async (_name, functions) => {
    const inside = await runChild(`await endless(await load(), ${functions});`, { model: directory });
    expect(inside).toMatchObject({ code: 9, signal: null, stderr: '' });
  });

  test('engines forgotten by everyone are collected with their threads', async () => {
    const script = `
      const count = () => require('node:fs').readdirSync('/proc/self/task').length;
      for (let i = 0; i < 3; i++) await load();
      const before = count();
      for (let i = 0; i < 10 && count() > before - 3; i++) { gc(); await new Promise((done) => setTimeout(done, 50)); }
      console.log(before - count());`;
    const result = await runChild(script, { model: directory, nodeArguments: ['--expose-gc'] });
    expect(result).toMatchObject({ code: 0, stdout: '3\n', stderr: '' });
  });
});

test("Jest's module reloads give working engines beside the old ones", async () => {
  const first = await createEngine({ device: 'cpu', threads: 1 });
  for (let round = 0; round < 3; round++) {
    jest.resetModules();
    const reloaded = jest.requireActual<typeof EngineModule>('../../src/engine/engine');
    expect(reloaded.createEngine).not.toBe(createEngine);
    await using engine = await reloaded.createEngine({ device: 'cpu', threads: 1 });
    const model = await engine.loadModel(directory);
    expect((await model.score(sequences())).logprobs.length).toBe(8);
    expect(await failureOf(() => engine.loadModel('/nowhere'))).toMatchObject({ code: 'BAD_FILE' });
  }
  await first.memory();
  await first.dispose();
});
