/**
 * Whole GRPO steps on SmolLM2-135M-Instruct, of acoer and of TRL's GRPOTrainer: the same problems, reward, group,
 * length, LoRA and threads.
 *
 *   node scripts/real/beside-trl.mjs [--rounds N] [--steps N] [--program NAME]... [--curves] [--out FILE.md]
 *
 *   --rounds N      processes of each program, in turns (5)
 *   --steps N       of each process; the first warms up and is not counted (3)
 *   --program NAME  a row of the table that is wanted besides `acoer` (all)
 *   --curves        instead: 30 steps of each from the study's long thinkers, with what is right and how long,
 *                   every 5
 *   --out FILE      also writes the table there
 *
 * The reward of the timed steps differs within every group, so that all completions are trained on (acoer leaves
 * out those that have no advantage); for the curves it is `acc` and the form. The timed steps' completions all reach
 * the limit, 32 of 64 tokens: what ends a completion is a token that does not come. Needs `npm run build`,
 * scripts/real/fetch-smollm2 and, in its virtual environment, scripts/real/requirements-references.txt. Nothing else
 * may run.
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import configuration from '../../dist/config/index.js';
import statistics from '../../dist/base/statistics.js';
import order from '../../dist/grpo/order.js';
import { scriptArguments } from '../lib/arguments.mjs';
import { root } from '../lib/study.mjs';

const { maximum, mean, median, minimum } = statistics;
const REAL = join(root, '.cache', 'real');
const PYTHON = join(REAL, 'venv', 'bin', 'python');
const TRAIN = join(REAL, 'task', 'train.jsonl');
const { promptTemplate: PROMPT } = configuration.resolveConfig([], 'paper');
const THREADS = cpus().length;
const VARIED = join(root, 'scripts', 'real', 'varied-reward.mjs');

/** What is timed: 32 completions of 64 tokens. */
const SETTINGS = { prompts: 4, group: 8, learningRate: 1e-5 };
const NEW_TOKENS = 64;
const ALL = SETTINGS.prompts * SETTINGS.group;

/** TRL with its options as they are, and what may be faster on a CPU; `batch` completions are trained on at a time. */
const TRL = {
  'TRL, defaults': { weights: 'fp32', autocast: true, checkpointing: true, batch: ALL },
  'TRL, fp32': { weights: 'fp32', autocast: false, checkpointing: false, batch: ALL },
  'TRL, bf16': { weights: 'bf16', autocast: true, checkpointing: false, batch: ALL },
  'TRL, bf16 by 8': { weights: 'bf16', autocast: true, checkpointing: false, batch: 8 },
  'TRL, fp32 by 8': { weights: 'fp32', autocast: false, checkpointing: false, batch: 8 },
};

const scratch = mkdtempSync(join(tmpdir(), 'acoer-beside-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

/** Files of the model, changed so that the token that ends a completion is one that it does not write. */
const ENDLESS = {
  'config.json': { eos_token_id: 16 },
  'generation_config.json': { eos_token_id: 16 },
  'tokenizer_config.json': { eos_token: '<empty_output>' },
};

function endless(weights) {
  const [from, to] = [join(REAL, weights), join(scratch, weights)];
  if (existsSync(to)) return to;
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (!Object.hasOwn(ENDLESS, name)) {
      symlinkSync(join(from, name), join(to, name));
      continue;
    }
    const content = JSON.parse(readFileSync(join(from, name), 'utf8'));
    writeFileSync(join(to, name), JSON.stringify({ ...content, ...ENDLESS[name] }));
  }
  return to;
}

function output(command, words) {
  // Each program waits for its threads in its own way.
  const env = { ...process.env };
  delete env.OMP_WAIT_POLICY;
  const { status, stdout } = spawnSync(command, words, {
    cwd: root,
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1 << 28,
  });
  if (status === 0) return stdout;
  console.error(`beside-trl: ${command} ended with ${status}`);
  process.exit(1);
}

const linesOf = (text) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

/** Steps of acoer in the words of `trl_run.py`. */
function acoerSteps({ model, adapter, varied, steps, prompts, group, maxNewTokens, learningRate, seed }) {
  const out = mkdtempSync(join(scratch, 'run-'));
  const settings = {
    model,
    dataset: TRAIN,
    ...(varied
      ? { reward: 'varied', 'rewardModules.varied': VARIED, formatWeight: 0 }
      : { reward: 'acc', formatWeight: 1 }),
    lossType: 'grpo',
    promptsPerStep: prompts,
    numGenerations: group,
    maxCompletionLength: maxNewTokens,
    lrSchedulerType: 'constant',
    warmupRatio: 0,
    weightDecay: 0,
    learningRate,
    evalProblems: 0,
    saveSteps: 0,
    completionsSteps: 0,
    logCompletions: 0,
  };
  const words = ['train', '--preset', 'paper', '--max-steps', steps, '--seed', seed];
  words.push('--threads', THREADS, '--out', join(out, 'run'), '--json');
  for (const [name, value] of Object.entries(settings)) words.push('--set', `${name}=${value}`);
  if (adapter !== null) words.push('--adapter', adapter);
  output(process.execPath, [join(root, 'dist', 'cli', 'main.js'), ...words.map(String)]);
  return linesOf(readFileSync(join(out, 'run', 'metrics.jsonl'), 'utf8')).map((line) => ({
    step: line.step,
    seconds: line.step_time,
    generateSeconds: line['time/generate'],
    tokens: line['completions/mean_length'] * prompts * group,
    reward: line.reward,
    accuracy: line['accuracy/mean'],
    peakBytes: line['memory/peak_resident_bytes'],
  }));
}

/** A file of the problems in the order in which acoer takes them. */
function inOrder({ steps, prompts, seed }) {
  const rows = readFileSync(TRAIN, 'utf8').trim().split('\n');
  const taken = new order.DataOrder(rows.length, seed);
  const file = join(scratch, 'problems.jsonl');
  const lines = Array.from({ length: steps * prompts }, (_, position) => rows[taken.rowAt(position)]);
  writeFileSync(file, `${lines.join('\n')}\n`);
  return file;
}

function trlSteps(settings) {
  const file = join(scratch, 'settings.json');
  const train = inOrder(settings);
  const own = { ...settings, train, prompt: PROMPT, threads: THREADS, temperature: 1 };
  writeFileSync(file, JSON.stringify(own));
  return linesOf(output(PYTHON, [join(root, 'scripts', 'real', 'trl_run.py'), file]));
}

/** What each row of the table runs: settings -> steps. */
const PROGRAMS = new Map(
  Object.entries({ acoer: { weights: 'bf16' }, 'acoer, fp32': { weights: 'fp32' }, ...TRL }).map(
    ([name, { weights, ...how }]) => [
      name,
      (settings) => {
        const model = settings.varied ? endless(weights) : join(REAL, weights);
        return (name in TRL ? trlSteps : acoerSteps)({ ...settings, ...how, model });
      },
    ],
  ),
);

/** Median and range, in tenths. */
const ranged = (list) => {
  const [middle, least, most] = [median(list), minimum(list), maximum(list)].map((value) => value.toFixed(1));
  return `${middle} (${least}-${most})`;
};

/** Medians of each process, and their median and range over the processes. */
function table(results) {
  const each = (rounds, of) => rounds.map((steps) => median(steps.slice(1).map(of)));
  const secondsOf = ({ seconds }) => seconds;
  const own = each(results.acoer, secondsOf);
  const lines = [
    '| program | step, s | sampling, s | rest, s | tokens | of acoer | peak memory, GB |',
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  for (const [name, rounds] of Object.entries(results)) {
    const cells = [
      ranged(each(rounds, secondsOf)),
      ranged(each(rounds, ({ generateSeconds }) => generateSeconds)), // prettier-ignore
      ranged(each(rounds, ({ seconds, generateSeconds }) => seconds - generateSeconds)), // prettier-ignore
      median(each(rounds, ({ tokens }) => tokens)).toFixed(0),
      ranged(each(rounds, secondsOf).map((seconds, round) => seconds / own[round])), // prettier-ignore
      ranged(rounds.map((steps) => steps.at(-1).peakBytes / 1e9)), // prettier-ignore
    ];
    lines.push(`| ${name} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}

function measure(rounds, steps, programs) {
  const results = Object.fromEntries(programs.map(([name]) => [name, []]));
  const settings = { ...SETTINGS, adapter: null, varied: true, steps, maxNewTokens: NEW_TOKENS };
  for (let round = 1; round <= rounds; round++) {
    for (const [name, run] of programs) {
      results[name].push(run({ ...settings, seed: round }));
      console.error(
        `${round} ${name}: ${median(results[name].at(-1).map(({ seconds }) => seconds)).toFixed(2)} s`,
      );
    }
  }
  return table(results);
}

const CURVE_STEPS = 30;
const CURVE_EVERY = 5;
/** Sixteen completions, two thirds of which end by themselves: 30 steps take TRL less than half an hour. */
const CURVE = { prompts: 2, maxNewTokens: 192, learningRate: 1e-4 };

function curves() {
  const adapter = join(REAL, 'study', 'sft', 'final');
  const settings = {
    ...SETTINGS,
    ...CURVE,
    adapter,
    varied: false,
    steps: CURVE_STEPS,
    seed: 1,
  };
  const lines = ['| program | steps | right, % | tokens | s |', '| --- | --- | --- | --- | --- |'];
  for (const name of ['acoer', 'TRL, bf16 by 8']) {
    const steps = PROGRAMS.get(name)(settings);
    for (let from = 0; from < CURVE_STEPS; from += CURVE_EVERY) {
      const some = steps.slice(from, from + CURVE_EVERY);
      const average = (of) => mean(some.map(of));
      const tokens = average((step) => step.tokens) / (settings.prompts * settings.group);
      lines.push(
        `| ${name} | ${from + 1}-${from + CURVE_EVERY} | ${(100 * average((step) => step.accuracy)).toFixed(1)} | ${tokens.toFixed(1)} | ${average((step) => step.seconds).toFixed(1)} |`,
      );
    }
    console.error(lines.slice(-CURVE_STEPS / CURVE_EVERY).join('\n'));
  }
  return lines.join('\n');
}

const { values } = scriptArguments(import.meta.url, {
  options: {
    rounds: { type: 'string', default: '5' },
    steps: { type: 'string', default: '3' },
    program: { type: 'string', multiple: true, default: [...PROGRAMS.keys()] },
    curves: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
});
for (const needed of [PYTHON, TRAIN]) {
  if (existsSync(needed)) continue;
  console.error(
    `beside-trl: ${needed} is missing; run scripts/real/fetch-smollm2 and scripts/real/make-task.mjs.`,
  );
  process.exit(2);
}
const unknown = values.program.find((name) => !PROGRAMS.has(name));
if (unknown !== undefined) {
  console.error(`beside-trl: no program "${unknown}"; there are "${[...PROGRAMS.keys()].join('", "')}".`);
  process.exit(2);
}
const programs = [...PROGRAMS].filter(([name]) => name === 'acoer' || values.program.includes(name));
const text = values.curves ? curves() : measure(Number(values.rounds), Number(values.steps), programs);
console.log(`${cpus()[0].model.trim()}, ${THREADS} cores\n\n${text}`);
if (values.out !== undefined) writeFileSync(values.out, `${text}\n`);
