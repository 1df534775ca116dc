/** Inputs that the fuzzer keeps, and its record of the time that it has spent. */
'use strict';

const { createHash } = require('node:crypto');
const { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const { homedir } = require('node:os');
const { join } = require('node:path');

const fixtures = join(__dirname, '..', '..', 'test', 'fixtures');
/** The small corpus and the record that the repository keeps. */
const COMMITTED = join(fixtures, 'fuzz-corpus');
/** Inputs that were findings once. */
const FINDINGS = join(fixtures, 'fuzz');
const HOME = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'acoer-fuzz');

/** @typedef {{ name: string, bytes: Buffer }} Input */

/** @param {string} folder @returns {Input[]} sorted by name; none if there is no such folder */
function inputsIn(folder) {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).sort();
  return names.map((name) => ({ name, bytes: readFileSync(join(folder, name)) }));
}

/** @param {string} kind */
const formerFindings = (kind) => inputsIn(join(FINDINGS, kind));

/**
 * The inputs of a kind that are known, each once.
 * @param {string} kind
 * @param {string | null} corpus null: only what the repository has
 */
function knownInputs(kind, corpus) {
  const folders = [COMMITTED, ...(corpus === null ? [] : [corpus])];
  const inputs = folders.flatMap((folder) => inputsIn(join(folder, kind)));
  const byName = new Map(inputs.map((input) => [keptName(input), input]));
  return [...byName.values()];
}

/** The name under which an input is kept. @param {Input} input its name tells readers the format */
function keptName({ name, bytes }) {
  const hash = createHash('sha1').update(bytes).digest('hex').slice(0, 12);
  return `${hash}-${name.replace(/^[0-9a-f]{12}-/, '')}`;
}

/** @param {string} folder @param {Input} input */
function keep(folder, input) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, keptName(input)), input.bytes);
}

/**
 * What was spent on one kind, all sittings together.
 * @typedef {object} Spent
 * @property {number} cpuSeconds
 * @property {number} cases
 * @property {number} blocksAtFirst reached by the whole files that mutations started from
 * @property {number} blocks reached so far
 * @property {number} blocksKnown in the files of code that were loaded
 * @property {number} findings with different causes
 */

/** @param {string} folder @returns {Record<string, Spent>} by kind */
function readRecord(folder) {
  for (const place of [folder, COMMITTED]) {
    const path = join(place, 'record.json');
    if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8'));
  }
  return {};
}

/** @param {string} folder @param {string} kind @param {Spent} spent */
function writeSpent(folder, kind, spent) {
  mkdirSync(folder, { recursive: true });
  const all = Object.entries({ ...readRecord(folder), [kind]: spent });
  const sorted = Object.fromEntries(all.sort(([a], [b]) => (a < b ? -1 : 1)));
  const path = join(folder, 'record.json');
  writeFileSync(`${path}.new`, `${JSON.stringify(sorted, null, 2)}\n`);
  renameSync(`${path}.new`, path);
}

module.exports = {
  COMMITTED,
  HOME,
  formerFindings,
  inputsIn,
  keep,
  keptName,
  knownInputs,
  readRecord,
  writeSpent,
};
