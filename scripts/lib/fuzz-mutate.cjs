/**
 * Mutates files: their bytes, and the JSON values in them. The same random numbers give the same mutations.
 */
'use strict';

const { gunzipSync, gzipSync } = require('node:zlib');

const { pick } = require('./random.cjs');
const { parts, together } = require('./fuzz-seeds.cjs');

/** Mutations do not grow beyond this. */
const MAX_BYTES = 1 << 21;

/** @typedef {() => number} Random in [0, 1) */

/** Numbers that trip up readers. */
const NUMBERS = [
  0, -0, 1, -1, 0.5, 2, 3, 7, 255, 256, 65536, 2 ** 31 - 1, 2 ** 31, -(2 ** 31), 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63, 1e9, 1e18, 1e308,
  -1e308, 5e-324, 1e-7,
]; // prettier-ignore

/** Keys that have a meaning in JavaScript. */
const KEYS = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'length', 'then', 'toJSON', '', '0', '-1', 'a.b', '__metadata__']; // prettier-ignore

const TEXTS = [
  '', ' ', '\0', '\ud800', '\udfff\ud800', '\ufeff', '\u2028', 'null', 'true', '../../etc/passwd', '/dev/zero', '/proc/self/mem', '1e999', '-', '[',
  '{{', '{%', '{#', '%s', '$&', '\\', '"', "'", '\r\n', '__proto__', 'constructor', 'a'.repeat(5000), '\u00e9'.repeat(300), '(a+)+$', '🦄',
]; // prettier-ignore

const WORDS = [
  'null', 'true', '[]', '{}', '""', '-', '1e999', 'NaN', '[[', '{"', ',', ':', '}', ']', '"__proto__":', '"constructor":{"prototype":{"x":1}}',
  '\\ud800', '\\u0000', '&a ', '*a', '<<: ', '!!js/function ', '---\n', '\t', '\n', '\0', '{{ ', ' }}', '{% for i in range(1000000000) %}', '{% endfor %}',
  '{% set x = x ~ x %}', '{% set x = x + x %}', '{% if ', '{% endif %}', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', '|', '(', ')', '.__proto__',
  '.constructor', "['constructor']", 'range(', '**', '//', '|join', '|length', '"', "'", '#', '%', '\\', '<think>', '9'.repeat(40),
]; // prettier-ignore

/** Half of the time a word of the code that is tried. @param {Random} random @param {readonly string[]} own @param {readonly string[]} words */
const pickWord = (random, own, words) => pick(random, words.length > 0 && random() < 0.5 ? words : own);

/** @param {Random} random @param {number} size */
const below = (random, size) => Math.floor(random() * size);

/** @param {Random} random @param {Buffer} bytes @param {Buffer} other @param {readonly string[]} words @returns {Buffer} */
function mutateBytes(random, bytes, other, words) {
  const at = below(random, bytes.length + 1);
  const length = Math.min(bytes.length - at, 1 + Math.floor(random() ** 4 * 64));
  const [before, cut, after] = [
    bytes.subarray(0, at),
    bytes.subarray(at, at + length),
    bytes.subarray(at + length),
  ];
  switch (below(random, 8)) {
    case 0:
      return Buffer.concat([before, cut.map((byte) => byte ^ (1 << below(random, 8))), after]);
    case 1:
      return Buffer.concat([before, cut.map(() => below(random, 256)), after]);
    case 2: // truncate
      return Buffer.from(before);
    case 3: // remove a part
      return Buffer.concat([before, after]);
    case 4: // repeat a part, up to 500 times
      return Buffer.concat([before, ...Array(1 + Math.floor(random() ** 4 * 500)).fill(cut), after]);
    case 5: {
      // insert a part of another file
      const from = below(random, other.length + 1);
      const until = from + below(random, Math.min(other.length - from, 4096) + 1);
      return Buffer.concat([before, other.subarray(from, until), after]);
    }
    case 6:
      return Buffer.concat([before, Buffer.from(pickWord(random, WORDS, words)), after]);
    default: {
      // write a little-endian number over four or eight bytes, as formats store lengths and offsets
      const number = Buffer.alloc(8);
      number.writeBigInt64LE(BigInt.asIntN(64, BigInt(Math.trunc(pick(random, NUMBERS) % 2 ** 64))));
      const width = random() < 0.5 ? 4 : 8;
      return Buffer.concat([before, number.subarray(0, width), bytes.subarray(at + width)]);
    }
  }
}

/** @param {Random} random @returns {unknown} */
function deep(random) {
  const depth = 2 ** below(random, 15);
  const array = random() < 0.5;
  return new RawJson(
    (array ? '[' : '{"a":').repeat(depth) + (array ? '' : '1') + (array ? ']' : '}').repeat(depth),
  );
}

/** Text written to the file as it is: something JSON.stringify cannot write, or only by recursion. */
class RawJson {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** @param {Random} random @param {readonly string[]} words @returns {unknown} */
function anyValue(random, words) {
  switch (below(random, 9)) {
    case 0:
      return null;
    case 1:
      return random() < 0.5;
    case 2:
      return [];
    case 3:
      return {};
    case 4:
      return deep(random);
    case 5:
      return new RawJson(
        pick(random, ['1e999', '-1e999', '9'.repeat(30), '0.1e-400', '12345678901234567890']),
      );
    case 6:
      return pickWord(random, TEXTS, words);
    case 7:
      return Array.from({ length: below(random, 5) }, () => pick(random, NUMBERS));
    default:
      return pick(random, NUMBERS);
  }
}

/** Values within an input: repeats of repeats would grow without end. */
const MOST_VALUES = 20_000;

/** Owner and key of every value within a value, of `MOST_VALUES` at most. @param {any} root @returns {[any, string | number][]} */
function places(root) {
  /** @type {[any, string | number][]} */
  const found = [];
  const visit = (/** @type {any} */ value) => {
    if (typeof value !== 'object' || value === null || value instanceof RawJson) return;
    for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
      if (found.length >= MOST_VALUES) return;
      found.push([value, key]);
      visit(value[key]);
    }
  };
  visit(root);
  return found;
}

/** Like JSON.stringify, but writes RawJson as it is. @param {any} value @returns {string} */
function write(value) {
  if (value instanceof RawJson) return value.text;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  return `{${Object.entries(value)
    .map(([key, inner]) => `${JSON.stringify(key)}:${write(inner)}`)
    .join(',')}}`;
}

/** @param {object} owner @param {string} key @param {unknown} value */
const define = (owner, key, value) =>
  Object.defineProperty(owner, key, { value, enumerable: true, configurable: true, writable: true });

/** Makes one change to a JSON value, in place. @param {Random} random @param {{ root: any }} holder @param {readonly string[]} words */
function mutateValue(random, holder, words) {
  const found = [...places(holder), [holder, 'root']];
  const [owner, key] = /** @type {[any, string]} */ (pick(random, found));
  const inner = owner[key];
  switch (below(random, 6)) {
    case 0:
      owner[key] = anyValue(random, words);
      return;
    case 1:
      if (Array.isArray(owner)) owner.splice(Number(key), 1);
      else if (key !== 'root') delete owner[key];
      return;
    case 2: {
      // the value from another place
      const [other, otherKey] = /** @type {[any, string]} */ (pick(random, found));
      owner[key] = structuredCloneOrSame(other[otherKey]);
      return;
    }
    case 3:
      if (Array.isArray(inner)) inner.splice(below(random, inner.length + 1), 0, anyValue(random, words));
      else if (typeof inner === 'object' && inner !== null && !(inner instanceof RawJson))
        define(inner, pickWord(random, KEYS, words), anyValue(random, words));
      else owner[key] = [inner];
      return;
    case 4:
      if (typeof inner === 'number') owner[key] = pick(random, NUMBERS);
      else if (typeof inner === 'string') owner[key] = random() < 0.5 ? inner + pick(random, TEXTS) : pickWord(random, TEXTS, words);
      else owner[key] = anyValue(random, words);
      return;
    default:
      if (Array.isArray(inner) && inner.length > 0)
        owner[key] = Array(1 + below(random, Math.min(200, Math.ceil(MOST_VALUES / found.length)))).fill(pick(random, inner));
      else owner[key] = write(inner);
  }
} // prettier-ignore

/** @param {unknown} value */
const structuredCloneOrSame = (value) =>
  typeof value === 'object' && value !== null && write(value).length < 1e5
    ? JSON.parse(write(value instanceof RawJson ? null : value).replace(/1e999/g, '1'))
    : value;

/** Parses JSON, keeping `__proto__` as an own key; undefined if it is not JSON. @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @param {Random} random @param {string} text @param {readonly string[]} words @returns {string | null} null: not JSON */
function mutateJson(random, text, words) {
  const root = parsed(text);
  if (root === undefined) return null;
  const holder = { root };
  try {
    for (let n = 1 + Math.floor(random() ** 2 * 4); n > 0; n--) mutateValue(random, holder, words);
    return write(holder.root);
  } catch (error) {
    if (error instanceof RangeError) return null; // nested too deeply for the recursion
    throw error;
  }
}

/** Mutates one line of JSON Lines. @param {Random} random @param {string} text @param {readonly string[]} words @returns {string | null} */
function mutateJsonLine(random, text, words) {
  const lines = text.split('\n');
  const at = below(random, lines.length);
  const line = mutateJson(random, /** @type {string} */ (lines[at]), words);
  return line === null ? null : lines.toSpliced(at, 1, line).join('\n');
}

/**
 * Mutates the header of a safetensors file and corrects its length.
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {readonly string[]} words
 */
function mutateSafetensors(random, bytes, words) {
  if (bytes.length < 8) return null;
  const length = bytes.readBigUInt64LE();
  if (length > BigInt(bytes.length - 8)) return null;
  const end = 8 + Number(length);
  const header = mutateJson(random, bytes.toString('utf8', 8, end), words);
  if (header === null) return null;
  const text = Buffer.from(header);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([size, text, bytes.subarray(end)]);
}

/**
 * Mutates what a gzip file holds.
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {Buffer} other
 * @param {readonly string[]} words
 */
function mutateGzip(random, bytes, other, words) {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return null;
  try {
    const inner = gunzipSync(bytes, { maxOutputLength: MAX_BYTES });
    return gzipSync(mutateOnce(random, inner, other, words), { level: 1 });
  } catch {
    return null; // no longer a gzip file
  }
}

/**
 * Mutates one file of an input made of several.
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {Buffer} other
 * @param {readonly string[]} words
 */
function mutatePart(random, bytes, other, words) {
  const files = parts(bytes);
  if (files.length < 2) return null;
  const at = below(random, files.length);
  const mutated = mutateOnce(random, /** @type {Buffer} */ (files[at]), pick(random, parts(other)), words);
  const all = files.toSpliced(at, 1, mutated);
  return together(...all);
}

/** @param {Random} random @param {Buffer} bytes @param {Buffer} other @param {readonly string[]} words @returns {Buffer} */
function mutateOnce(random, bytes, other, words) {
  if (random() < 0.3) return mutateBytes(random, bytes, other, words);
  const inner = mutateGzip(random, bytes, other, words) ?? mutatePart(random, bytes, other, words);
  if (inner !== null) return inner;
  const text = bytes.length < 1 << 20 ? bytes.toString('utf8') : null;
  const json =
    text === null ? null : (mutateJson(random, text, words) ?? mutateJsonLine(random, text, words));
  if (json !== null) return Buffer.from(json);
  return mutateSafetensors(random, bytes, words) ?? mutateBytes(random, bytes, other, words);
}

/**
 * A changed copy of a file.
 * @param {Random} random
 * @param {Buffer} bytes
 * @param {Buffer} other a file to take parts from
 * @param {readonly string[]} [words] that may mean something to what reads the file
 * @returns {Buffer}
 */
function mutateFile(random, bytes, other, words = []) {
  /** @type {Buffer} */
  let result = bytes;
  for (let n = 1 + below(random, 3); n > 0; n--)
    result = mutateOnce(random, result, other, words).subarray(0, MAX_BYTES);
  return result;
}

module.exports = { mutateFile };
