/**
 * The process that reads the fuzzer's inputs. It tells its parent where it stands a few times per second, so
 * that the parent knows about the time it used and which input ended or hung it.
 */
'use strict';

const { mkdirSync, rmSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

const { formerFindings, inputsIn, keep, knownInputs } = require('./fuzz-corpus.cjs');
const { KINDS } = require('./fuzz-kinds.cjs');
const { mutateFile } = require('./fuzz-mutate.cjs');
const { pick, randomFrom } = require('./random.cjs');

/** @typedef {import('./fuzz-corpus.cjs').Input} Input */

/** What one input may cost. The thread that reads Parquet is given up by the clock, not by processor time. */
const LIMITS = { cpuMs: 3_000, parquetCpuMs: 12_000, growthBytes: 300e6, messageCharacters: 20_000 };
const CODES = new Set([
  'BAD_ARGUMENT', 'BAD_SHAPE', 'BAD_FILE', 'BAD_CONFIG', 'BAD_INPUT', 'RUN_EXISTS', 'RUN_LOCKED', 'HUB',
]); // prettier-ignore
/** Longest input that is kept: small ones mutate better. */
const MAX_KEPT_BYTES = 1 << 15;
const TELL_MS = 250;

const BUILT_IN = [Object, Array, Function, String, Number, Map, Set, Promise, Error, RegExp].map(
  ({ prototype }) => prototype,
);
const propertiesNow = () => BUILT_IN.flatMap((owner) => Reflect.ownKeys(owner)).length;
const properties = propertiesNow();

/** What readers printed, which only the command line may do. @type {string[]} */
const printed = [];

function listen() {
  const hear = (/** @type {any} */ text) => void printed.push(String(text?.message ?? text));
  process.emitWarning = /** @type {any} */ (hear);
  for (const stream of [process.stdout, process.stderr]) {
    stream.write = /** @type {any} */ ((/** @type {any} */ text) => (hear(text), true));
  }
}

/** @param {any} error */
function problemOfError(error) {
  if (typeof error !== 'object' || error === null || !CODES.has(error.code))
    return `${error?.stack ?? error}`;
  if (typeof error.message !== 'string' || error.message === '') return 'an error without a message';
  if (error.message.length > LIMITS.messageCharacters)
    return `a message of ${error.message.length} characters`;
  return null;
}

/**
 * What went wrong when reading one input, or null.
 * @param {() => unknown} read
 * @param {number} [cpuMs] what it may cost
 */
async function problemOf(read, cpuMs = LIMITS.cpuMs) {
  const before = process.cpuUsage();
  const rssBefore = process.resourceUsage().maxRSS * 1024;
  /** @type {string | null} */
  let problem = null;
  try {
    await read();
  } catch (error) {
    problem = problemOfError(error);
  }
  const { user, system } = process.cpuUsage(before);
  const ms = (user + system) / 1000;
  const growth = process.resourceUsage().maxRSS * 1024 - rssBefore;
  if (propertiesNow() !== properties) problem ??= 'a property on a prototype';
  if (printed.length > 0) problem ??= `printed: ${JSON.stringify(printed.splice(0).join('').slice(0, 300))}`;
  const costly = ms > cpuMs ? `${ms.toFixed(0)} ms of processor time` : null;
  const large = growth > LIMITS.growthBytes ? `memory grew by ${(growth / 1e6).toFixed(0)} MB` : null;
  return { problem, cost: costly ?? large, ms };
}

/**
 * @typedef {object} Share
 * @property {string} kind
 * @property {number} seed
 * @property {number} first number of the first case
 * @property {number} cpuSeconds
 * @property {string} folder for the files of cases
 * @property {string | null} corpus where inputs that reach new blocks are kept; null: unguided
 * @property {boolean} smallest only report which inputs of the corpus suffice
 * @property {string | null} replay read the inputs of this folder once, without mutations
 */

/** Reads inputs of one kind. */
class Reader {
  /** @param {Share} share @param {import('./fuzz-kinds.cjs').Kind} kind */
  constructor(share, kind) {
    this.share = share;
    this.kind = kind;
    this.at = share.first;
    this.cases = 0;
    this.slowestMs = 0;
    this.told = 0;
    /** Where the last input was written. @type {string | null} */
    this.path = null;
    /** What the last input was answered with. @type {Error | null} */
    this.error = null;
    this.place = join(share.folder, 'case');
    this.coverage = share.corpus === null ? null : new (require('./fuzz-coverage.cjs').Coverage)();
  }

  /** @param {Record<string, unknown>} [more] */
  state(more) {
    const { user, system } = process.cpuUsage();
    const { cases, at, slowestMs, coverage } = this;
    const reached = coverage && { blocks: coverage.reached, known: coverage.known };
    return { at, cases, slowestMs, cpuSeconds: (user + system) / 1e6, reached, ...more };
  }

  /** @param {Input} input */
  async run(input) {
    const now = Date.now();
    if (now - this.told > TELL_MS) {
      this.told = now;
      process.send?.(this.state());
      // Lets the message out, and the events of what earlier cases left behind in.
      await new Promise((resolve) => setImmediate(resolve));
    }
    rmSync(this.place, { recursive: true, force: true });
    mkdirSync(this.place);
    const path = join(this.share.folder, input.name);
    if (path !== this.path) {
      this.path = path;
      process.send?.({ path });
    }
    writeFileSync(path, input.bytes);
    this.coverage?.clear();
    this.error = null;
    const read = async () => {
      try {
        await this.kind.read(path, input.bytes, this.place);
      } catch (error) {
        this.error = /** @type {Error} */ (error);
        throw error;
      }
    };
    const parquet = input.name.endsWith('.parquet');
    return problemOf(read, parquet ? LIMITS.parquetCpuMs : this.kind.cpuMs);
  }

  /** Reads an input and reports what is wrong with it. @param {Input} input */
  async judge(input) {
    const { problem, cost, ms } = await this.run(input);
    const found = problem ?? cost;
    if (found !== null) {
      const bytes = input.bytes.toString('base64');
      process.send?.({ found: { index: this.at, problem: found, name: input.name, bytes } });
    }
    this.cases++;
    this.slowestMs = Math.max(this.slowestMs, ms);
    return found === null;
  }

  /** Whether an input that reached the new `pairs` reaches any of them each time. @param {number[]} pairs @param {Input} input */
  async repeats(pairs, input) {
    if (pairs.length === 0) return false;
    await this.run(input);
    const again = this.coverage?.ran() ?? [];
    const known = new Set(again.map((block, i) => (i % 2 === 0 ? block * 256 + (again[i + 1] ?? 0) : -1)));
    return pairs.some((block, i) => i % 2 === 0 && known.has(block * 256 + (pairs[i + 1] ?? 0)));
  }
}

/** Half of the inputs come from the newest. @param {() => number} random @param {Input[]} inputs */
const pickInput = (random, inputs) =>
  pick(random, random() < 0.5 && inputs.length > 64 ? inputs.slice(-32) : inputs);

/**
 * Reads mutations until the time is spent.
 * @param {Reader} reader
 * @param {Input[]} inputs to begin with
 */
async function fuzz(reader, inputs) {
  const { kind, share, coverage } = reader;
  const words = coverage === null ? [] : [...require('./fuzz-coverage.cjs').words];
  const mutate = kind.mutate ?? mutateFile;
  const spent = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
  for (; spent() < share.cpuSeconds; reader.at++) {
    const random = randomFrom(share.seed * 1_000_003 + reader.at * 31 + share.kind.length);
    for (let i = 0; i < 4; i++) random();
    const { name, bytes } = pickInput(random, inputs);
    const input = { name, bytes: mutate(random, bytes, pickInput(random, inputs).bytes, words) };
    const well = await reader.judge(input);
    if (coverage === null || !well) continue;
    const fresh = coverage.fresh();
    if (input.bytes.length > MAX_KEPT_BYTES || !(await reader.repeats(fresh, input))) continue;
    inputs.push(input);
    keep(join(/** @type {string} */ (share.corpus), share.kind), input);
  }
}

/** Reads the inputs that are known already, which is not yet judged: the code is being loaded. @param {Reader} reader @param {Input[]} inputs */
async function load(reader, inputs) {
  for (const input of inputs) {
    await reader.run(input);
    reader.coverage?.fresh();
  }
}

/**
 * Reports the names of the fewest and smallest inputs that reach the same blocks as all of them.
 * @param {Reader} reader
 * @param {Input[]} given are there anyway
 * @param {Input[]} inputs
 */
async function reportSmallest(reader, given, inputs) {
  const seen = new Set();
  const bySize = inputs.toSorted((a, b) => a.bytes.length - b.bytes.length);
  for (const input of [...given, ...bySize]) {
    await reader.run(input);
    const blocks = reader.coverage?.ran().filter((_, i) => i % 2 === 0) ?? [];
    const fresh = blocks.filter((block) => !seen.has(block));
    for (const block of fresh) seen.add(block);
    if (fresh.length > 0 && !given.includes(input)) process.send?.({ keep: input.name });
  }
}

/** Seeds are files as they should be: unless they are read, mutations do not get far either. @param {Reader} reader @param {Input[]} seeds */
async function loadSeeds(reader, seeds) {
  for (const input of seeds) {
    await load(reader, [input]);
    if (reader.error === null || reader.kind.refused?.includes(input.name)) continue;
    const problem = `the seed ${input.name} is refused: ${reader.error.message}`;
    process.send?.({
      found: { index: reader.at, problem, name: input.name, bytes: input.bytes.toString('base64') },
    });
  }
}

/** @param {Share} share */
async function runShare(share) {
  process.env.FUZZ_FOLDER = share.folder;
  const kind = KINDS[share.kind];
  if (kind === undefined) throw new Error(`no kind ${share.kind}`);
  listen();
  const reader = new Reader(share, kind);
  if (share.replay !== null) {
    for (const input of inputsIn(join(share.replay, share.kind)).slice(share.first)) {
      await reader.judge(input);
      reader.at++;
    }
  } else {
    const seeds = Object.entries(await kind.seeds()).map(([name, bytes]) => ({ name, bytes }));
    await loadSeeds(reader, seeds);
    process.send?.({ blocksAtFirst: reader.coverage?.reached ?? 0 });
    const given = [...seeds, ...formerFindings(share.kind)];
    const known = knownInputs(share.kind, share.corpus);
    await load(reader, [...given, ...known]);
    process.send?.({ loaded: true });
    if (share.smallest) await reportSmallest(reader, given, known);
    else await fuzz(reader, [...given, ...known]);
  }
  await new Promise((resolve) => process.send?.(reader.state({ done: true }), resolve));
  process.exit(0);
}

module.exports = { LIMITS, runShare };
