/**
 * The same run with the engine's own sampler and with a server of vLLM: lengths, log-probs, seconds.
 *
 *   node scripts/studies/vllm-sampler.mjs URL MODEL [--steps 20] [--prompts 2] [--group 4] [--tokens 32]
 *
 * MODEL is the folder that the server at URL has loaded. The reward is shortness, so that something is learnt in a few
 * steps. Prints a line for each step of both runs. Needs `npm run build:ts` and the addon.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { scriptArguments } from '../lib/arguments.mjs';

const { train } = createRequire(import.meta.url)('../../dist/index.js');

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    steps: { type: 'string', default: '20' },
    prompts: { type: 'string', default: '2' },
    group: { type: 'string', default: '4' },
    tokens: { type: 'string', default: '32' },
  },
});
const [url, model] = positionals;
if (url === undefined || model === undefined) throw new Error('URL and MODEL are needed; see --help');

const settings = {
  model,
  dataset: 'tiny',
  promptTemplate: '{problem}',
  maxSteps: Number(values.steps),
  promptsPerStep: Number(values.prompts),
  numGenerations: Number(values.group),
  maxCompletionLength: Number(values.tokens),
  formatWeight: 0,
  learningRate: 5e-4,
  lrSchedulerType: 'constant',
  warmupRatio: 0,
  evalProblems: 0,
  evalSampledProblems: 0,
  saveSteps: 0,
  importanceSamplingCorrection: 'token_truncate',
  importanceSamplingClipMax: 2,
};
const shortness = ({ totalTokens }) => -totalTokens / settings.maxCompletionLength;

const root = mkdtempSync(join(tmpdir(), 'acoer-vllm-study-'));
async function linesOf(name, sampler) {
  const out = join(root, name);
  const onEvent = (event) => event.type === 'sampler' && console.log(event.message);
  const run = await train({ ...settings, sampler }, { out, reward: shortness, onEvent });
  await run.result();
  const text = readFileSync(join(out, 'metrics.jsonl'), 'utf8').trim();
  return text.split('\n').map((line) => JSON.parse(line));
}

const COLUMNS = {
  tokens: 'completions/mean_length',
  kl: 'sampling/mismatch_kl',
  gap: 'sampling/sampling_logp_difference/mean',
  outside: 'sampling/ratio_outside',
  seconds: 'time/generate',
};
const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length;

try {
  for (const [name, sampler] of [
    ['own', 'engine'],
    ['vllm', { type: 'vllm', servers: [url] }],
  ]) {
    const lines = await linesOf(name, sampler);
    console.log(`\n${name.padEnd(6)}${Object.keys(COLUMNS).map((column) => column.padStart(10)).join('')}`); // prettier-ignore
    const shown = (of) => Object.values(COLUMNS).map((metric) => of(metric).padStart(10)).join(''); // prettier-ignore
    const text = (value) => (value === undefined ? '-' : value.toPrecision(3));
    for (const line of lines) console.log(`${String(line.step).padEnd(6)}${shown((metric) => text(line[metric]))}`); // prettier-ignore
    const known = (metric) => lines.map((line) => line[metric]).filter((value) => value !== undefined);
    console.log(`${'mean'.padEnd(6)}${shown((metric) => text(mean(known(metric))))}`);
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
