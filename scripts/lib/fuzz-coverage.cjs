/**
 * Counts the blocks of code that run, so that the fuzzer knows which inputs reach new ones. Loaded with
 * `node --require`, which also loads it in worker threads: they count into the same memory.
 *
 * Every function, branch, loop body, case and right side of `&&`, `||` and `??` is a block. Counted are the
 * compiled package and the packages that parse what users give; ES modules among them become CommonJS.
 */
'use strict';

const { createHash } = require('node:crypto');
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const Module = require('node:module');
const { join, relative } = require('node:path');
const { getEnvironmentData, setEnvironmentData, threadId } = require('node:worker_threads');

const root = join(__dirname, '..', '..');
const PARSERS = [
  'yaml', 'zod', '@huggingface/jinja', '@huggingface/tokenizers', 'hyparquet', 'hyparquet-compressors',
  'csv-parse', '@streamparser/json', 'picomatch',
]; // prettier-ignore
const COUNTED = new RegExp(`^((packages/verify/)?dist/|node_modules/(${PARSERS.join('|')})/(?!.*/locales/))`);

const MAX_BLOCKS = 1 << 18;
const MAX_FILES = 1 << 12;
const KEY = 'acoer-fuzz-blocks';
/** @typedef {{ counters: SharedArrayBuffer, files: SharedArrayBuffer }} Memory */
if (getEnvironmentData(KEY) === undefined) {
  const memory = {
    counters: new SharedArrayBuffer(MAX_BLOCKS),
    files: new SharedArrayBuffer(4 * (1 + 2 * MAX_FILES)),
  };
  setEnvironmentData(KEY, /** @type {any} */ (memory));
}
const memory = /** @type {Memory} */ (/** @type {unknown} */ (getEnvironmentData(KEY)));
/** Times that each block ran, modulo 256. */
const counters = new Uint8Array(memory.counters);
/** The number of blocks, then a hash table of files: hash of the path, and the file's first block plus 1. */
const files = new Int32Array(memory.files);

/**
 * The first block of a file, the same in all threads.
 * @param {string} path
 * @param {number} count of the file's blocks
 */
function firstBlock(path, count) {
  const hash = createHash('sha1').update(path).digest().readInt32LE() | 1;
  for (let slot = Math.abs(hash) % MAX_FILES; ; slot = (slot + 1) % MAX_FILES) {
    const at = 1 + 2 * slot;
    const owner = Atomics.compareExchange(files, at, 0, hash);
    if (owner === 0) {
      const first = Atomics.add(files, 0, count);
      Atomics.store(files, at + 1, first + 1);
      return first;
    }
    while (owner === hash) {
      const first = Atomics.load(files, at + 1);
      if (first > 0) return first - 1;
    }
  }
}

/** Short strings of the counted code, which are likely to mean something to it. @type {Set<string>} */
const words = new Set();

/** @typedef {{ code: string, count: number, words: string[] }} Counted */

/**
 * @param {string} source
 * @param {string} path relative to the package
 * @returns {Counted}
 */
function withCounters(source, path) {
  /** @type {typeof import('esbuild')} */
  const esbuild = require('esbuild');
  /** @type {typeof import('@babel/core')} */
  const babel = require('@babel/core');
  const t = babel.types;
  const common = esbuild.transformSync(source, {
    format: 'cjs',
    platform: 'node',
    target: 'node20',
    // import() of a counted package would load it without counters.
    supported: { 'dynamic-import': false },
    logLevel: 'silent',
  });
  let count = 0;
  const found = new Set();
  const counter = () =>
    t.updateExpression(
      '++',
      t.memberExpression(t.identifier('__blocks'), t.binaryExpression('+', t.identifier('__first'), t.numericLiteral(count++)), true),
    ); // prettier-ignore
  const statement = () => t.expressionStatement(counter());
  /** @param {any} node */
  const block = (node) => {
    if (t.isBlockStatement(node)) node.body.unshift(statement());
    return t.isBlockStatement(node) ? node : t.blockStatement([statement(), ...(node ? [node] : [])]);
  };
  /** @param {any} node */
  const expression = (node) => t.sequenceExpression([counter(), node]);
  /** @param {any} at */
  const loop = ({ node }) => void (node.body = block(node.body));
  /** @type {import('@babel/core').Visitor} */
  const visitor = {
    Function: {
      exit({ node }) {
        node.body = t.isBlockStatement(node.body) ? block(node.body) : /** @type {any} */ (expression(node.body));
      },
    },
    IfStatement: {
      exit({ node }) {
        node.consequent = block(node.consequent);
        node.alternate = block(node.alternate);
      },
    },
    ConditionalExpression: {
      exit({ node }) {
        node.consequent = expression(node.consequent);
        node.alternate = expression(node.alternate);
      },
    },
    LogicalExpression: { exit: ({ node }) => void (node.right = expression(node.right)) },
    SwitchCase: { exit: ({ node }) => void node.consequent.unshift(statement()) },
    CatchClause: { exit: ({ node }) => void block(node.body) },
    Loop: { exit: loop },
    StringLiteral({ node: { value }, parent }) {
      const compared =
        t.isBinaryExpression(parent) || t.isSwitchCase(parent) || t.isArrayExpression(parent) || t.isCallExpression(parent) || t.isObjectProperty(parent); // prettier-ignore
      if (compared && /^[^\s]{2,24}$/.test(value) && !/^\.{1,2}\//.test(value)) found.add(value);
    },
    ObjectProperty({ node: { key } }) {
      if (/^(packages\/verify\/)?dist\//.test(path) && t.isIdentifier(key)) found.add(key.name);
    },
  }; // prettier-ignore
  const result = babel.transformSync(common.code, {
    configFile: false,
    babelrc: false,
    comments: false,
    compact: true,
    sourceType: 'script',
    plugins: [{ visitor }],
  });
  if (typeof result?.code !== 'string') throw new Error(`no code for ${path}`);
  return { code: result.code, count, words: [...found] };
}

/** Like `withCounters`, but remembers its answers in FUZZ_CODE. @param {string} source @param {string} path */
function counted(source, path) {
  const hash = createHash('sha1').update(readFileSync(__filename)).update(path).update(source).digest('hex');
  const folder = process.env.FUZZ_CODE ?? '';
  const place = join(folder, `${hash}.json`);
  try {
    return /** @type {Counted} */ (JSON.parse(readFileSync(place, 'utf8')));
  } catch {
    const made = withCounters(source, path);
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${place}.${process.pid}.${threadId}`, JSON.stringify(made));
    renameSync(`${place}.${process.pid}.${threadId}`, place);
    return made;
  }
}

/** @type {any} */ (globalThis).__fuzzBlocks = counters;
const extensions = /** @type {any} */ (Module)._extensions;
for (const extension of ['.js', '.mjs', '.cjs']) {
  const plain = extensions[extension] ?? extensions['.js'];
  extensions[extension] = (/** @type {any} */ module, /** @type {string} */ filename) => {
    const path = relative(root, filename);
    if (!COUNTED.test(path)) return plain(module, filename);
    const made = counted(readFileSync(filename, 'utf8'), path);
    for (const word of made.words) words.add(word);
    const strict = /^["']use strict["'];?/.exec(made.code)?.[0] ?? '';
    const names = `const __first=${firstBlock(path, made.count)},__blocks=globalThis.__fuzzBlocks;`;
    module._compile(strict + names + made.code.slice(strict.length), filename, 'commonjs');
  };
}

/** A bit for how often a block ran: 1, 2, 3, 4-7, 8-15, 16-31, 32-127 times or more. */
const BITS = Uint8Array.from({ length: 256 }, (_, n) =>
  n < 4 ? (n === 0 ? 0 : 1 << (n - 1)) : n < 8 ? 8 : n < 16 ? 16 : n < 32 ? 32 : n < 128 ? 64 : 128,
);

/** What has been reached so far. */
class Coverage {
  #words = new Uint32Array(memory.counters);
  /** Bits by block. */
  #seen = new Uint8Array(MAX_BLOCKS);
  /** Blocks that have run. */
  reached = 0;

  /** Blocks of the files loaded so far. */
  get known() {
    return /** @type {number} */ (files[0]);
  }

  /** Forgets what ran since the last call. */
  clear() {
    counters.fill(0);
  }

  /** What ran since `clear`: pairs of block and bit. @returns {number[]} */
  ran() {
    const pairs = [];
    const end = Math.ceil(this.known / 4);
    for (let word = 0; word < end; word++) {
      if (this.#words[word] === 0) continue;
      for (let block = 4 * word; block < 4 * word + 4; block++) {
        const bit = /** @type {number} */ (BITS[/** @type {number} */ (counters[block])]);
        if (bit !== 0) pairs.push(block, bit);
      }
    }
    return pairs;
  }

  /** The pairs of `ran()` that are new, which makes them known. */
  fresh() {
    const seen = this.#seen;
    const pairs = [];
    const all = this.ran();
    for (let i = 0; i < all.length; i += 2) {
      const [block, bit] = /** @type {[number, number]} */ ([all[i], all[i + 1]]);
      const before = /** @type {number} */ (seen[block]);
      if ((before & bit) !== 0) continue;
      if (before === 0) this.reached++;
      seen[block] = before | bit;
      pairs.push(block, bit);
    }
    return pairs;
  }
}

module.exports = { Coverage, words };
