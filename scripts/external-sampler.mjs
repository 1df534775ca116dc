/**
 * Kills the server that samples for a run at random moments, and starts it again:
 *
 *   node scripts/external-sampler.mjs [--kill-server 20] [--steps 60] [--seed 1] [--keep FOLDER]
 *
 * `acoer serve` samples for a run of the embedded model. At random moments it gets SIGKILL and is started again on the
 * same port. The run must end, with every completion of every step exactly once, and be, to the last bit, the run whose
 * server nobody disturbed: the same completions and the same adapter. Exit code 0 if all of that held. Needs
 * `npm run build:ts` and the addon.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { scriptArguments } from './lib/arguments.mjs';
import { freePort } from './lib/ports.mjs';
import { root } from './lib/study.mjs';
import { check, killAll, settingWords, start } from './ranks/processes.mjs';

const require = createRequire(import.meta.url);
const { uniformStream } = require('../dist/base/rng.js');
const { readCompletions } = require('../dist/run/index.js');

const { values } = scriptArguments(import.meta.url, {
  options: {
    'kill-server': { type: 'string', default: '20' },
    steps: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    keep: { type: 'string' },
  },
});
const [kills, steps] = [Number(values['kill-server']), Number(values.steps)];
const random = uniformStream(BigInt(values.seed));
/** Most milliseconds between the step in which the server is to die and its death: about a step's. */
const LATER_MS = 200;

const SETTINGS = {
  ...{ maxSteps: steps, promptsPerStep: 4, numGenerations: 4, maxCompletionLength: 48, learningRate: 2e-3 },
  ...{ evalProblems: 0, evalSampledProblems: 0, completionsSteps: 1, saveSteps: 0, threads: 1 },
};

const folder = values.keep ?? mkdtempSync(join(tmpdir(), 'acoer-external-'));
mkdirSync(folder, { recursive: true });
const port = await freePort();
const url = `http://127.0.0.1:${port}`;

async function startServer() {
  const words = ['serve', 'tiny', '--port', String(port), '--no-key', '--allow-lora-updates'];
  const server = spawn(
    process.execPath,
    [join(root, 'dist/cli/main.js'), ...words, '--lora-root', folder, '--device', 'cpu', '--threads', '1'],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  await once(server.stdout, 'data');
  return server;
}

const trainWith = (out) =>
  start(['--preset', 'tiny', ...settingWords(SETTINGS), '--sampler-url', url, '--out', out]);

const completionsOf = async (out) => {
  const all = [];
  for (let step = 1; step <= steps; step++) {
    const path = join(out, 'completions', `step-${String(step).padStart(6, '0')}.parquet`);
    const rows = await readCompletions(path);
    all.push(rows.map(({ promptIndex, sample, completion }) => `${promptIndex} ${sample} ${completion}`));
  }
  return all;
};

const weightsOf = (out) => readFileSync(join(out, 'final', 'adapter_model.safetensors'));

const linesOf = (out) => {
  const path = join(out, 'metrics.jsonl');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
};
const stepsOf = (out) => linesOf(out).length;
const retriesOf = (out) =>
  linesOf(out).reduce((sum, line) => sum + (JSON.parse(line)['sampling/retries'] ?? 0), 0);

let server = await startServer();
try {
  const [calm, killed] = [join(folder, 'calm'), join(folder, 'killed')];
  const first = await trainWith(calm).ended;
  check(first.code === 0, `the undisturbed run ended with ${first.code}:\n${first.text}`);

  const run = trainWith(killed);
  let done = 0;
  for (; done < kills; done++) {
    // Spread over the run, one in each part of it.
    const step = Math.floor(((done + random()) * steps) / kills);
    while (stepsOf(killed) < step && run.code === null) await sleep(10);
    await sleep(random() * LATER_MS);
    if (run.code !== null) break;
    const gone = once(server, 'exit');
    server.kill('SIGKILL');
    await gone;
    server = await startServer();
  }
  await run.ended;
  check(run.code === 0, `the run ended with ${run.code}:\n${run.text}`);
  check(done === kills, `the run had ended after ${done} kills`);
  const [before, after] = [await completionsOf(calm), await completionsOf(killed)];
  for (const [step, rows] of after.entries()) {
    const expected = SETTINGS.promptsPerStep * SETTINGS.numGenerations;
    const keys = new Set(rows.map((row) => row.split(' ', 2).join(' ')));
    check(
      rows.length === expected && keys.size === expected,
      `step ${step + 1} has ${rows.length} completions, ${keys.size} of them different ones, not ${expected}`,
    );
  }
  check(isDeepStrictEqual(after, before), 'the completions are not those of the undisturbed run');
  check(weightsOf(killed).equals(weightsOf(calm)), 'the adapter is not that of the undisturbed run');
  console.log(
    `${done} kills in ${steps} steps: ${retriesOf(killed)} requests made again, every completion once, completions and adapter equal to those of the undisturbed run`,
  );
} finally {
  server.kill('SIGKILL');
  killAll();
  if (values.keep === undefined) rmSync(folder, { recursive: true, force: true });
}
