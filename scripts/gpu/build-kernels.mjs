#!/usr/bin/env node
/**
 * Compiles the CUDA kernels into `native/cuda/kernels/kernels.fatbin`, which the package ships, and writes down in
 * `kernels.json` beside it what it was made from. No GPU is needed; some two CPU minutes.
 *
 *   node scripts/gpu/build-kernels.mjs [--check]
 *
 * With `--check` nothing is written: exit code 1 when the sources, the flags or the fatbin are not those of
 * kernels.json, or when this machine's nvcc is of the same version and makes another fatbin of them. Exit code 2: nvcc
 * is missing (without `--check`) or failed.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ARCHITECTURES, kernelFlags, nvccVersion } from '../lib/nvcc.mjs';
import { packageRoot } from '../lib/paths.mjs';

const KERNELS = join(packageRoot, 'native', 'cuda', 'kernels');
const FATBIN = join(KERNELS, 'kernels.fatbin');
const RECORD = join(KERNELS, 'kernels.json');
const MOST_BYTES = 1_200_000;

// PTX of the newest for cards that come after it.
const newest = ARCHITECTURES.at(-1);
const FLAGS = [
  ...kernelFlags(ARCHITECTURES),
  ...['-gencode', `arch=compute_${newest},code=compute_${newest}`, '--compress-mode=size'],
];

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

/** @param {string} message @returns {never} */
function fail(message) {
  process.stderr.write(`build-kernels: ${message}\n`);
  process.exit(2);
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Each file that `name` includes by quotes, itself too: its SHA-256. */
function hashSources(name, hashes = {}) {
  if (name in hashes) return hashes;
  const text = readFileSync(join(KERNELS, name), 'utf8');
  hashes[name] = sha256(text);
  for (const [, included] of text.matchAll(/^#include "([^"]+)"/gm)) {
    // The emulator, which nvcc does not see.
    if (included !== 'cuda_emu.h') hashSources(included, hashes);
  }
  return hashes;
}

/** The fatbin's bytes and the names of its kernels. */
function compile() {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-kernels-'));
  const file = join(folder, 'kernels.fatbin');
  const words = [...FLAGS, '--threads', '0', '-o', file, 'kernels.cu'];
  const { status, stderr, stdout } = spawnSync('nvcc', words, {
    cwd: KERNELS,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) fail(`nvcc failed:\n${stdout}${stderr}`);
  const bytes = readFileSync(file);
  rmSync(folder, { recursive: true });
  const names = [...(stdout + stderr).matchAll(/entry function '(\w+)'/g)].map(([, name]) => name);
  return { bytes, names: [...new Set(names)].sort() };
}

const made = (sources, nvcc, { bytes, names }) => ({
  nvcc,
  flags: FLAGS.join(' '),
  bytes: bytes.length,
  sha256: sha256(bytes),
  sources: Object.fromEntries(Object.entries(sources).sort(([a], [b]) => (a < b ? -1 : 1))),
  kernels: names,
});

/** Why the fatbin is not the one of these sources; empty when it is. */
function differences() {
  const record = JSON.parse(readFileSync(RECORD, 'utf8'));
  const sources = hashSources('kernels.cu');
  const wrong = [...new Set([...Object.keys(sources), ...Object.keys(record.sources)])]
    .filter((name) => sources[name] !== record.sources[name])
    .map((name) => `${name} has changed since kernels.fatbin was made`);
  if (FLAGS.join(' ') !== record.flags) wrong.push('the flags have changed');
  const bytes = readFileSync(FATBIN);
  if (sha256(bytes) !== record.sha256) wrong.push('kernels.fatbin is not the one of kernels.json');
  if (wrong.length > 0) return wrong;
  if (nvccVersion() !== record.nvcc) {
    console.log(`nvcc ${record.nvcc} is not here: kernels.fatbin was not made anew to compare`);
    return [];
  }
  const again = compile();
  if (!again.bytes.equals(bytes)) wrong.push('the same nvcc makes another kernels.fatbin');
  if (again.names.join() !== record.kernels.join()) wrong.push('the names of the kernels differ');
  return wrong;
}

if (values.check) {
  const wrong = differences();
  for (const line of wrong) console.log(line);
  if (wrong.length > 0) console.log('Run: node scripts/gpu/build-kernels.mjs');
  else console.log('kernels.fatbin is up to date');
  process.exitCode = wrong.length > 0 ? 1 : 0;
} else {
  const nvcc = nvccVersion();
  if (nvcc === null) {
    fail('nvcc is missing; install the CUDA toolkit and put its bin folder on PATH');
  }
  const result = compile();
  if (result.bytes.length >= MOST_BYTES) fail(`the fatbin has ${result.bytes.length} bytes`);
  const record = made(hashSources('kernels.cu'), nvcc, result);
  writeFileSync(FATBIN, result.bytes);
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  console.log(`${result.names.length} kernels, ${result.bytes.length} bytes`);
}
