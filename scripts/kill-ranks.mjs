/**
 * Kills and stops ranks of runs at random moments, and resumes the runs:
 *
 *   node scripts/kill-ranks.mjs [N] [--seed 1] [--timeout-s 30] [--keep FOLDER]
 *
 * N losses (50). A run of the embedded model is made by 1 to 4 processes. At a random moment after all have joined, one
 * of them gets SIGKILL or SIGSTOP. All others must end, after SIGKILL within 5 s, after SIGSTOP within the time-out
 * (--timeout-s, ACOER_RANKS_TIMEOUT) and 10 s, each with one sentence that names the rank and what it was doing. One
 * that was stopped must end when it wakes, and write nothing. Then the run is resumed by another 1 to 4 processes, until
 * it ends: all metrics must then be those of a run of one process that nobody disturbed (to 1e-9), all completions and
 * the adapter to the bit. Then the next run begins. Prints a table; exit code 0 if all of that held. Before all have
 * joined a rank that is missing is waited for, as launchers start them at different times.
 * Needs `npm run build:ts` and the addons, and a machine that is otherwise idle: 5 s are not many on a busy one.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scriptArguments } from './lib/arguments.mjs';
import { freePort } from './lib/ports.mjs';
import {
  check,
  checkSame,
  ENDING_S,
  endedWithin,
  hashesOf,
  killAll,
  placeOf,
  sentenceOf,
  SETTINGS,
  settingWords,
  start,
  untilOpen,
} from './ranks/processes.mjs';

const { uniformStream } = createRequire(import.meta.url)('../dist/base/rng.js');
const MOST_RANKS = 4;
const KILLED_S = 5;
const OWN_SETTINGS = { numIterations: 2, saveSteps: 3, evalSteps: 5, evalProblems: 4, evalMaxNewTokens: 64 };

const { values, positionals } = scriptArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    'timeout-s': { type: 'string', default: '30' },
    keep: { type: 'string' },
  },
});
const losses = Number(positionals[0] ?? 50);
const timeoutS = Number(values['timeout-s']);

/** The same seed draws the same, apart from the machine's timing. */
const random = uniformStream(BigInt(values.seed));
const below = (count) => Math.floor(random() * count);

async function startRanks(size, words) {
  if (size === 1) return [start(words)];
  const port = await freePort();
  return Array.from({ length: size }, (_, rank) =>
    start(words, placeOf(rank, size, '127.0.0.1', port, timeoutS)),
  );
}

const wordsFor = (folder) =>
  existsSync(join(folder, 'config.json'))
    ? ['--resume', folder]
    : ['--preset', 'tiny', ...settingWords({ ...SETTINGS, ...OWN_SETTINGS }), '--out', folder];

const isFinished = (folder) => existsSync(join(folder, 'summary.json'));

/** Wakes a stopped rank, which must end and, unless the run was `finished`, leave every file as it is. */
async function checkWoken(victim, folder, finished) {
  const before = hashesOf(folder);
  victim.child.kill('SIGCONT');
  await endedWithin([victim], ENDING_S, 'after waking');
  if (finished) return;
  check(victim.code === 1, `a stopped rank woke and ended with ${victim.code}:\n${victim.text}`);
  check(hashesOf(folder).join() === before.join(), `a stopped rank woke and wrote to ${folder}`);
}

/** Takes one of the ranks away. @returns what is told of it; null: they had made the last step before */
async function lose(ranks, folder, { lost, signal }) {
  const victim = ranks[lost];
  const others = ranks.filter((rank) => rank !== victim);
  const atMs = performance.now();
  victim.child.kill(signal);
  const killed = signal === 'SIGKILL';
  await endedWithin(
    killed ? ranks : others,
    killed ? KILLED_S : timeoutS + ENDING_S,
    `${signal} of rank ${lost}`,
  );
  const slowestMs = Math.max(0, ...others.map(({ endedMs }) => endedMs - atMs));
  const finished = isFinished(folder) && others.every(({ code }) => code === 0);
  const [sentence = ''] = finished ? [] : others.map((other) => sentenceOf(other, lost, victim.child.pid));
  if (!killed) await checkWoken(victim, folder, finished);
  return finished ? null : { slowestMs, sentence };
}

const WIDTHS = [5, 6, 5, 8, 8];
const row = (cells, last) =>
  console.log([...cells.map((cell, i) => String(cell).padEnd(WIDTHS[i])), last].join(' '));

/** One start of the run in `folder`. @returns how it was ended; null: it came to its end */
async function life(folder, wholeMs, number) {
  const size = 1 + below(MOST_RANKS);
  const lost = below(size);
  // Nobody would notice that the only process is stopped.
  const signal = random() < 0.5 && size > 1 ? 'SIGSTOP' : 'SIGKILL';
  const afterMs = number === null ? Infinity : random() * wholeMs;
  const ranks = await startRanks(size, wordsFor(folder));
  // Several processes load for longer than one runs: most losses shall be in the steps.
  await untilOpen(folder, ranks, random() < 0.75);
  const all = Promise.all(ranks.map(({ ended }) => ended));
  if (number !== null) await Promise.race([all, sleep(afterMs)]);
  else await all;
  const found = ranks.every(({ code }) => code === null) ? await lose(ranks, folder, { lost, signal }) : null;
  await all;
  if (found !== null) {
    row([number, size, lost, signal, (found.slowestMs / 1000).toFixed(1)], found.sentence);
    return { signal, ...found };
  }
  // One that was killed after the summary had been written is no failure.
  if (!isFinished(folder) || ranks.some(({ code, child }) => code !== 0 && !child.killed))
    throw new Error(`a run did not come to its end:\n${ranks.map(({ text }) => text).join('\n')}`);
  return null;
}

const work = values.keep ?? mkdtempSync(join(tmpdir(), 'acoer-kill-ranks-'));
mkdirSync(work, { recursive: true });
try {
  const straight = join(work, 'straight');
  const [one] = await startRanks(1, wordsFor(straight));
  await untilOpen(straight, [one]);
  const openMs = performance.now();
  await one.ended;
  check(one.code === 0, `the run that nobody disturbs failed:\n${one.text}`);
  const wholeMs = performance.now() - openMs;
  row(['loss', 'ranks', 'lost', 'signal', 's'], 'what the others said');
  const found = [];
  let runs = 0;
  for (; found.length < losses; runs++) {
    const folder = join(work, `run-${runs}`);
    for (;;) {
      const next = found.length < losses ? found.length + 1 : null;
      const ended = await life(folder, wholeMs, next);
      if (ended === null) break;
      found.push(ended);
    }
    await checkSame(folder, straight);
    if (values.keep === undefined) rmSync(folder, { recursive: true });
  }
  const slowest = (name) => {
    const s = found.filter(({ signal }) => signal === name).map(({ slowestMs }) => slowestMs / 1000);
    return `${s.length} ${name}, the others ended within ${Math.max(0, ...s).toFixed(1)} s`;
  };
  console.log(`${slowest('SIGKILL')}; ${slowest('SIGSTOP')}; ${runs} runs, each that of one process`);
} catch (error) {
  console.error(`kill-ranks: ${error.message}`);
  process.exitCode = 1;
} finally {
  killAll();
  if (values.keep === undefined) rmSync(work, { recursive: true, force: true });
}
