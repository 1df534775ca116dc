#!/usr/bin/env node
/**
 * Compiles the CUDA kernels of `native/cuda/kernels` into `assets/kernels`, which the package ships, and writes down
 * what they were made from in kernels.json there. No GPU is needed.
 *
 *   node scripts/gpu/build-kernels.mjs [--check] [--nvrtc DIR]
 *
 * Two sets: `kernels.fatbin`, by nvcc, for drivers of CUDA 13 (some two CPU minutes), and `cuda12/sm_NN.cubin`, machine
 * code for older drivers, by the run-time compiler in DIR (another two), which this fills:
 *
 *   pip install --no-deps --target DIR nvidia-cuda-nvrtc-cu12==12.6.77 nvidia-cuda-runtime-cu12==12.6.77
 *
 * A set whose compiler is missing is left as it is. With `--check` nothing is written: exit code 1 when the sources, the
 * flags or a file are not those of kernels.json, or when a compiler of the recorded version is here and makes other
 * bytes of them. Exit code 2: no compiler (without `--check`), or one failed.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  ARCHITECTURES,
  findNvrtc,
  kernelFlags,
  nvccVersion,
  nvrtcFlags,
  OLDER_ARCHITECTURES,
} from '../lib/nvcc.mjs';
import { packageRoot } from '../lib/paths.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const SOURCES = join(packageRoot, 'native', 'cuda', 'kernels');
const SHIPPED = join(packageRoot, 'assets', 'kernels');
const RECORD = join(SHIPPED, 'kernels.json');

const { values } = scriptArguments(import.meta.url, {
  options: { check: { type: 'boolean', default: false }, nvrtc: { type: 'string' } },
});

/** @param {string} message @returns {never} */
function fail(message) {
  process.stderr.write(`build-kernels: ${message}\n`);
  process.exit(2);
}

const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

/** Each file that `name` includes by quotes, itself too: its SHA-256. */
function hashSources(name, hashes = {}) {
  if (name in hashes) return hashes;
  const text = readFileSync(join(SOURCES, name), 'utf8');
  hashes[name] = sha256(text);
  for (const [, included] of text.matchAll(/^#include "([^"]+)"/gm)) {
    // The emulator, which NVIDIA's compilers do not see.
    if (included !== 'cuda_emu.h') hashSources(included, hashes);
  }
  return hashes;
}

/** What the compiler `program` writes into the file after `before`, and what it says. */
function compiled(program, before, after, env = process.env) {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-kernels-'));
  const file = join(folder, 'kernels');
  const { status, stderr, stdout } = spawnSync(program, [...before, file, ...after], {
    cwd: SOURCES,
    encoding: 'utf8',
    env,
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) fail(`${program} failed:\n${stdout}${stderr}`);
  const bytes = readFileSync(file);
  rmSync(folder, { recursive: true });
  return { bytes, text: stdout + stderr };
}

/** PTX of the newest for cards that come after it. */
const newest = ARCHITECTURES.at(-1);
const FATBIN_FLAGS = [
  ...kernelFlags(ARCHITECTURES),
  ...['-gencode', `arch=compute_${newest},code=compute_${newest}`, '--compress-mode=size'],
];

function compileFatbin() {
  const { bytes, text } = compiled('nvcc', [...FATBIN_FLAGS, '--threads', '0', '-o'], ['kernels.cu']);
  const names = [...text.matchAll(/entry function '(\w+)'/g)].map(([, name]) => name);
  return { files: { 'kernels.fatbin': bytes }, names };
}

function compileOlder() {
  const { library, lib, headers } = findNvrtc(values.nvrtc);
  const env = { ...process.env, LD_LIBRARY_PATH: lib };
  const script = join(packageRoot, 'scripts', 'gpu', 'nvrtc.py');
  const files = {};
  for (const architecture of OLDER_ARCHITECTURES) {
    const flags = [...nvrtcFlags(architecture), `-I${headers}`];
    const { bytes } = compiled('python3', ['-B', script, library, 'kernels.cu'], flags, env);
    files[`cuda12/sm_${architecture}.cubin`] = bytes;
  }
  // Each kernel has a section of its own.
  const names = Object.values(files).flatMap((bytes) =>
    [...bytes.toString('latin1').matchAll(/\.text\.(acoer_\w+)\0/g)].map(([, name]) => name),
  );
  return { files, names };
}

/** The newest CUDA's driver first, as native/core/kernels/gpu/card.cpp chooses. */
const SETS = {
  'kernels.fatbin': {
    compiler: 'nvcc',
    driverAtLeast: 580,
    flags: FATBIN_FLAGS.join(' '),
    mostBytes: 2_000_000,
    version: nvccVersion,
    compile: compileFatbin,
  },
  cuda12: {
    compiler: 'nvrtc',
    driverAtLeast: 525,
    flags: OLDER_ARCHITECTURES.map((name) => nvrtcFlags(name).join(' ')).join('; '),
    mostBytes: 5_000_000,
    version: () => findNvrtc(values.nvrtc)?.version ?? null,
    compile: compileOlder,
  },
};

function describe({ compiler, driverAtLeast, flags }, version, sources, { files, names }) {
  return {
    compiler,
    version,
    driverAtLeast,
    flags,
    files: Object.fromEntries(
      Object.entries(files).map(([name, bytes]) => [name, { bytes: bytes.length, sha256: sha256(bytes) }]),
    ),
    sources: Object.fromEntries(Object.entries(sources).sort(([a], [b]) => (a < b ? -1 : 1))),
    kernels: [...new Set(names)].sort(),
  };
}

/** Why a set is not the one of these sources; empty when it is. */
function differences(title, set, record, sources) {
  if (record === undefined) return [`${title} has never been made`];
  const wrong = [...new Set([...Object.keys(sources), ...Object.keys(record.sources)])]
    .filter((name) => sources[name] !== record.sources[name])
    .map((name) => `${name} has changed since ${title} was made`);
  if (set.flags !== record.flags) wrong.push(`the flags of ${title} have changed`);
  for (const [name, { sha256: digest }] of Object.entries(record.files)) {
    const file = join(SHIPPED, name);
    if (!existsSync(file) || sha256(readFileSync(file)) !== digest)
      wrong.push(`${name} is not the one of kernels.json`);
  }
  if (wrong.length > 0) return wrong;
  if (set.version() !== record.version) {
    console.log(`${set.compiler} ${record.version} is not here: ${title} was not made anew to compare`);
    return [];
  }
  const again = describe(set, record.version, sources, set.compile());
  if (JSON.stringify(again) !== JSON.stringify(record))
    wrong.push(`the same compiler makes another ${title}`);
  return wrong;
}

const before = existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')) : {};
const sources = hashSources('kernels.cu');

if (values.check) {
  const wrong = Object.entries(SETS).flatMap(([title, set]) =>
    differences(title, set, before[title], sources),
  );
  for (const line of wrong) console.log(line);
  if (wrong.length > 0)
    console.log('Run: node scripts/gpu/build-kernels.mjs --nvrtc DIR (it says what DIR is)');
  else console.log('the kernels are up to date');
  process.exitCode = wrong.length > 0 ? 1 : 0;
} else {
  const record = {};
  for (const [title, set] of Object.entries(SETS)) {
    const version = set.version();
    if (version === null) {
      console.log(`${title} is left as it is: no ${set.compiler} here`);
      if (before[title] !== undefined) record[title] = before[title];
      continue;
    }
    const result = set.compile();
    const bytes = Object.values(result.files).reduce((sum, file) => sum + file.length, 0);
    if (bytes >= set.mostBytes) fail(`${title} has ${bytes} bytes`);
    for (const [name, content] of Object.entries(result.files)) {
      mkdirSync(dirname(join(SHIPPED, name)), { recursive: true });
      writeFileSync(join(SHIPPED, name), content);
    }
    record[title] = describe(set, version, sources, result);
    console.log(`${title}: ${record[title].kernels.length} kernels, ${bytes} bytes`);
  }
  if (Object.values(SETS).every((set) => set.version() === null)) {
    fail('there is no compiler; put the bin folder of the CUDA toolkit on PATH, or give --nvrtc');
  }
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
}
