/**
 * The runs whose files are recorded: one that is stopped, resumed to its end and resumed with more steps, a
 * fork of it, and one that rolls back. `workload.mjs DIST FOLDER DATASET`; each stage says in the log how far it is.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A rollback needs a step that is refused: its loss is not a number, once. */
const FAULTY = { loss: 'faulty', step: 4 };

const SHARED = {
  threads: 1,
  promptsPerStep: 2,
  numGenerations: 4,
  maxCompletionLength: 24,
  numIterations: 2,
  saveSteps: 1,
  keepCheckpoints: 2,
  evalSteps: 2,
  evalProblems: 2,
  evalSampledProblems: 2,
  evalMaxNewTokens: 24,
  completionsSteps: 1,
  csv: true,
};

/** Loads the package in `dist` and makes its loss `faulty`, which is as the default but for one call. */
export function loadPackage(dist) {
  const require = createRequire(import.meta.url);
  const package_ = require(join(dist, 'index.js'));
  const { listLosses } = require(join(dist, 'losses', 'index.js'));
  const original = listLosses().find(({ name }) => name === 'dapo');
  const fault = { next: false };
  package_.registerLoss({
    ...original,
    name: FAULTY.loss,
    compute: (...given) => {
      const result = original.compute(...given);
      if (!fault.next) return result;
      fault.next = false;
      mark('refused');
      return { ...result, loss: NaN };
    },
  });
  const own = (name) => require(join(dist, name));
  return {
    train: package_.train,
    fault,
    config: own('config/index.js'),
    opening: own('train/opening.js'),
    run: own('run/index.js'),
    sinks: own('life/sinks.js'),
    state: own('train/state.js'),
    uniformStream: own('base/rng.js').uniformStream,
  };
}

/** Tells the recorder. */
const mark = (text) => existsSync(`/acoer-mark/${text}`);

async function stage(api, name, settings, options, onStep = () => undefined) {
  mark(`begin ${name}`);
  const onEvent = (event) => {
    if (event.type === 'checkpoint') mark(`checkpoint ${event.step}`);
    if (event.type === 'rollback') mark(`rollback ${event.rollback.to}`);
  };
  const run = await api.train(settings, { ...options, onEvent });
  try {
    for await (const step of run) onStep(step.index, run);
    await run.result();
    mark(`finished ${run.config.maxSteps}`);
  } catch (error) {
    if (error.code !== 'INTERRUPTED') throw error;
  }
}

/** A few sums, so that opening a run takes no time. */
function writeProblems(path) {
  const rows = Array.from({ length: 40 }, (_, i) => ({
    problem: `${i % 9}+${(i * 7) % 9} mod 10?`,
    answer: `${((i % 9) + ((i * 7) % 9)) % 10}`,
  }));
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

async function main(dist, folder, dataset) {
  const api = loadPackage(dist);
  writeProblems(dataset);
  const SETTINGS = { ...SHARED, dataset };
  const at = (name) => join(folder, 'runs', name);
  await stage(
    api,
    'a',
    { ...SETTINGS, maxSteps: 5 },
    { out: at('a') },
    (step, run) => step === 3 && run.stop(),
  );
  await stage(api, 'a', {}, { resume: at('a') });
  await stage(api, 'a', { maxSteps: 6 }, { resume: at('a') });
  const forked = { ...SETTINGS, seed: 7, maxSteps: 6 };
  await stage(api, 'fork', forked, { fork: { run: at('a'), at: 5 }, out: at('fork') });
  const rolling = {
    ...SETTINGS,
    lossType: FAULTY.loss,
    nonFinitePolicy: 'rollback',
    saveSteps: 2,
    maxSteps: 6,
  };
  await stage(api, 'back', rolling, { out: at('back') }, (step) => {
    if (step === FAULTY.step && api.fault.used !== true) api.fault.next = api.fault.used = true;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await main(...process.argv.slice(2));
