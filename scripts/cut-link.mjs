/**
 * Cuts the network between two ranks of a run:
 *
 *   sudo node scripts/cut-link.mjs [--timeout-s 30] [--keep FOLDER]
 *
 * Two network namespaces joined by a pair of virtual Ethernet devices hold one rank each. During a run the link is taken
 * down: both must end within the time-out (--timeout-s, ACOER_RANKS_TIMEOUT) and 10 s, each with one sentence that names
 * the other rank, its host and what it was doing. Then the link is restored and the run resumed, whose completions,
 * metrics and adapter must be those of a run of one process. Prints the sentences; exit code 0 if all of that held.
 * Needs Linux, root and `ip` (Debian's iproute2), `npm run build:ts` and the addons; exit code 2 without them.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { scriptArguments } from './lib/arguments.mjs';
import {
  check,
  checkSame,
  ENDING_S,
  endedWithin,
  killAll,
  placeOf,
  sentenceOf,
  SETTINGS,
  settingWords,
  start,
} from './ranks/processes.mjs';

const ADDRESSES = ['10.9.0.1', '10.9.0.2'];
/** The namespaces have ports of their own. */
const PORT = 29500;
const CUT_AFTER_STEPS = 3;
const OWN_SETTINGS = { saveSteps: 4, evalProblems: 2 };

const { values } = scriptArguments(import.meta.url, {
  options: { 'timeout-s': { type: 'string', default: '30' }, keep: { type: 'string' } },
});
const timeoutS = Number(values['timeout-s']);

const names = ['a', 'b'].map((end) => `acoer-${end}-${process.pid}`);
const devices = ['a', 'b'].map((end) => `veth-${end}-${process.pid}`.slice(0, 15));

/** @returns what went wrong; null: nothing */
function ip(...words) {
  const { status, stderr, error } = spawnSync('ip', words, { encoding: 'utf8' });
  return status === 0 ? null : (error?.message ?? stderr.trim());
}

function mustIp(...words) {
  const fault = ip(...words);
  check(fault === null, `ip ${words.join(' ')}: ${fault}`);
}

/** Why there can be no namespaces here; null: there can. */
function lacks() {
  if (process.getuid?.() !== 0)
    return 'it needs root, for network namespaces: sudo node scripts/cut-link.mjs';
  const fault = ip('netns', 'add', names[0]);
  return fault && `there can be no network namespaces here (ip netns add: ${fault})`;
}

const setLink = (state) => mustIp('-n', names[0], 'link', 'set', devices[0], state);

function joinNamespaces() {
  mustIp('netns', 'add', names[1]);
  mustIp(
    ...`link add ${devices[0]} netns ${names[0]} type veth peer name ${devices[1]} netns ${names[1]}`.split(
      ' ',
    ),
  );
  for (const [i, name] of names.entries()) {
    mustIp('-n', name, 'addr', 'add', `${ADDRESSES[i]}/24`, 'dev', devices[i]);
    mustIp('-n', name, 'link', 'set', 'lo', 'up');
    mustIp('-n', name, 'link', 'set', devices[i], 'up');
  }
}

const startRanks = (words) =>
  names.map((name, rank) =>
    start(words, placeOf(rank, 2, ADDRESSES[0], PORT, timeoutS), ['ip', 'netns', 'exec', name]),
  );

const stepsOf = (folder) => {
  const path = join(folder, 'metrics.jsonl');
  return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
};

async function cutAndResume(work) {
  const words = (folder) => [
    '--preset',
    'tiny',
    ...settingWords({ ...SETTINGS, ...OWN_SETTINGS }),
    '--out',
    folder,
  ];
  const [straight, cut] = [join(work, 'straight'), join(work, 'cut')];
  const one = start(words(straight));
  await one.ended;
  check(one.code === 0, `the run that nobody disturbs failed:\n${one.text}`);
  const ranks = startRanks(words(cut));
  while (stepsOf(cut) < CUT_AFTER_STEPS && ranks.every(({ code }) => code === null)) await sleep(20);
  const atMs = performance.now();
  setLink('down');
  await endedWithin(ranks, timeoutS + ENDING_S, 'after the cut');
  for (const [rank, own] of ranks.entries()) {
    const lost = 1 - rank;
    const sentence = sentenceOf(own, lost, ranks[lost].child.pid);
    console.log(`rank ${rank} after ${((own.endedMs - atMs) / 1000).toFixed(1)} s: ${sentence}`);
  }
  setLink('up');
  const again = startRanks(['--resume', cut]);
  await Promise.all(again.map(({ ended }) => ended));
  for (const { code, text } of again) check(code === 0, `the run could not be resumed:\n${text}`);
  await checkSame(cut, straight);
  console.log('resumed: the run of one process');
}

const lack = lacks();
if (lack !== null) {
  console.error(`cut-link: ${lack}`);
  process.exit(2);
}
const work = values.keep ?? mkdtempSync(join(tmpdir(), 'acoer-cut-link-'));
mkdirSync(work, { recursive: true });
try {
  joinNamespaces();
  await cutAndResume(work);
} catch (error) {
  console.error(`cut-link: ${error.message}`);
  process.exitCode = 1;
} finally {
  killAll();
  for (const name of names) ip('netns', 'del', name);
  if (values.keep === undefined) rmSync(work, { recursive: true, force: true });
}
