/** What this machine and package have, what is missing, and the command that fixes it. Changes nothing. */
import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { readState } from './build.mjs';
import { messageOf } from './errors.mjs';
import { findLibtorch, MANIFEST } from './find.mjs';
import { kernelsFor } from './gpu-kernels.mjs';
import { fingerprint } from './inspect.mjs';
import { kernelChecks } from './kernel-checks.mjs';
import { addonFile, cacheFolder, cudaObjectFile, packageRoot, setupCommand } from './paths.mjs';
import { probeAddon } from './probe.mjs';
import { capture, which } from './run.mjs';
import * as tools from './tools.mjs';
import { wantedLibtorch } from './setup.mjs';

/**
 * @typedef {{name: string, memoryBytes: number, computeCapability: string | null, kernels: string | null}} Gpu
 * `kernels`: which of acoer's CUDA kernels it takes; null: the driver is unknown.
 * @typedef {{
 *   acoer: string, node: string, platform: string, glibc: string | null,
 *   cpu: {name: string, cores: number, instructions: string[]},
 *   memory: {totalBytes: number, availableBytes: number},
 *   tools: import('./tools.mjs').ToolReport[],
 *   libtorch: {wanted: string, why: string, found: import('./find.mjs').FoundLibtorch | null},
 *   cache: {folder: string, freeBytes: number, libtorch: string[]},
 *   nvidia: {driver: string | null, gpus: Gpu[], nvcc: string | null, cudaObject: boolean},
 *   kernelChecks: import('./kernel-checks.mjs').KernelCheck[],
 *   addon: {file: string, state: 'ok' | 'missing' | 'stale' | 'broken', prebuilt: string | null,
 *     build: import('./probe.mjs').AddonFacts['build'] | null,
 *     devices: import('./probe.mjs').DeviceFacts[]},
 *   problems: string[], notes: string[],
 * }} Report
 * `addon.prebuilt`: the package that the addon is from; null: it was built here. `problems` stop acoer from running
 * here, `notes` do not; each is a sentence with the command that fixes it.
 */

/** @param {string} file */
function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

const INSTRUCTIONS = ['avx2', 'fma', 'avx512f', 'avx512_bf16', 'amx_bf16'];

function cpuFacts() {
  const flagLine = /^flags\s*: (.*)$/m.exec(readIfThere('/proc/cpuinfo'))?.[1] ?? '';
  const flags = new Set(flagLine.split(' '));
  return {
    name: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    instructions: INSTRUCTIONS.filter((name) => flags.has(name)),
  };
}

function memoryFacts() {
  const kib = /^MemAvailable:\s+(\d+) kB/m.exec(readIfThere('/proc/meminfo'))?.[1];
  return { totalBytes: totalmem(), availableBytes: Number(kib ?? 0) * 1024 };
}

/** @param {NodeJS.ProcessEnv} env */
function cacheFacts(env) {
  const folder = cacheFolder(env);
  let place = folder;
  while (!existsSync(place)) place = dirname(place);
  const disk = statfsSync(place);
  const libtorch = existsSync(folder)
    ? readdirSync(folder).filter((name) => existsSync(join(folder, name, MANIFEST)))
    : [];
  return { folder, freeBytes: disk.bavail * disk.bsize, libtorch };
}

/**
 * Compute capabilities of the cards, in their order; empty where nvidia-smi is too old to tell.
 * @param {string} smi @param {NodeJS.ProcessEnv} env
 */
function computeCapabilities(smi, env) {
  const rows = capture(smi, ['--query-gpu=compute_cap', '--format=csv,noheader'], env);
  return (rows.ok ? rows.stdout.trim().split('\n') : []).filter((row) => /^\d+\.\d+$/.test(row));
}

/** @param {NodeJS.ProcessEnv} env @param {string | null} driver @param {string[]} notes */
function nvidiaFacts(env, driver, notes) {
  const smi = which('nvidia-smi', env);
  const rows = smi
    ? capture(smi, ['--query-gpu=name,memory.total', '--format=csv,noheader,nounits'], env)
    : null;
  const capabilities = smi ? computeCapabilities(smi, env) : [];
  const gpus = (rows?.ok ? rows.stdout.trim().split('\n') : [])
    .map((row) => /** @type {[string, string?]} */ (row.split(/,\s*(?=\d+$)/)))
    .map(([name, mebibytes], i) => {
      const computeCapability = capabilities[i] ?? null;
      const kernels = driver === null ? null : kernelsFor(driver, computeCapability);
      if (kernels !== null && !kernels.usable) notes.push(`${name}: ${kernels.text}.`);
      const memoryBytes = Number(mebibytes) * 2 ** 20;
      return { name, memoryBytes, computeCapability, kernels: kernels?.text ?? null };
    });
  const nvcc = which('nvcc', env);
  const release = nvcc
    ? (/release (\d+\.\d+)/.exec(capture(nvcc, ['--version'], env).stdout)?.[1] ?? null)
    : null;
  return { driver, gpus, nvcc: release, cudaObject: existsSync(cudaObjectFile) };
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {boolean} withCuda
 * @param {string[]} problems
 * @returns {Report['addon']}
 */
function addonFacts(env, withCuda, problems) {
  const state = readState();
  const nothing = { file: addonFile, prebuilt: state?.prebuilt ?? null, build: null, devices: [] };
  if (!existsSync(addonFile)) {
    problems.push(`the native addon is not built: run \`${setupCommand()}\`.`);
    return { ...nothing, state: 'missing' };
  }
  if (state && existsSync(state.root) && fingerprint(state.root) !== state.fingerprint) {
    problems.push(
      `libtorch in ${state.root} has changed since the addon was built: run \`${setupCommand()}\`.`,
    );
    return { ...nothing, state: 'stale' };
  }
  const { facts, problem } = probeAddon(addonFile, withCuda ? ['cpu', 'cuda:0'] : ['cpu'], env);
  if (facts === null) {
    problems.push(`${problem}.`);
    return { ...nothing, state: 'broken' };
  }
  for (const device of facts.devices) {
    if (device.error) problems.push(`the device ${device.device} does not work: ${device.error}`);
  }
  return { ...nothing, state: 'ok', ...facts };
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string | null} driver
 * @param {string[]} problems
 * @param {string[]} notes
 * @returns {{libtorch: Report['libtorch'], compiles: boolean}} `compiles`: set-up here needs a compiler
 */
function libtorchFacts(env, driver, problems, notes) {
  const note = (/** @type {string} */ line) => void notes.push(`${line}.`);
  const state = readState();
  try {
    // As the last set-up, which may have been told to compile.
    const options = { 'from-source': state !== null && !state.prebuilt };
    const wanted = wantedLibtorch(options, env, driver, note);
    const libtorch = { wanted: wanted.flavour, why: wanted.why, found: findLibtorch(env, wanted, note) };
    return { libtorch, compiles: wanted.prebuilt === null };
  } catch (error) {
    problems.push(messageOf(error)); // a bad LIBTORCH or flavour
    return { libtorch: { wanted: 'unknown', why: 'see the problems', found: null }, compiles: true };
  }
}

/** @param {NodeJS.ProcessEnv} [env] @param {string | null} [driver] NVIDIA's version @returns {Report} */
export function examine(env = process.env, driver = tools.nvidiaDriver(env)) {
  /** @type {string[]} */
  const problems = [];
  /** @type {string[]} */
  const notes = [];
  const platformProblem = tools.platformProblem();
  if (platformProblem) problems.push(platformProblem);
  const { libtorch, compiles } = libtorchFacts(env, driver, problems, notes);
  const nvidia = nvidiaFacts(env, driver, notes);
  const built = readState();
  const cudaBuilt = built !== null && built.flavour !== 'cpu';
  const addon = addonFacts(env, nvidia.driver !== null && cudaBuilt, problems);
  if (nvidia.driver !== null && !cudaBuilt && libtorch.wanted !== 'cpu') {
    notes.push(
      `this machine has an NVIDIA GPU, but the addon is built for the CPU: run \`npx acoer setup --flavour ${libtorch.wanted}\`.`,
    );
  }
  const toolReports = [
    tools.checkCmake,
    tools.checkMake,
    tools.checkCompiler,
    tools.checkPython,
    tools.checkPip,
  ].map((check) => check(env));
  // Tools are needed only to set up, not to run; for a prebuilt addon only those that fetch libtorch.
  const isNeeded = (/** @type {string} */ name) =>
    addon.state !== 'ok' && (compiles || (libtorch.found === null && ['python3', 'pip'].includes(name)));
  for (const { name, problem } of toolReports) {
    if (problem === null) continue;
    if (isNeeded(name)) problems.push(problem);
    else if (compiles) notes.push(problem);
  }
  const checks = kernelChecks(env);
  for (const { right, text, file } of checks) {
    if (!right) notes.push(`acoer's CUDA kernels on ${text}: please report ${file}.`);
  }
  const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
  return {
    acoer: manifest.version,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
    glibc: tools.glibcVersion(),
    cpu: cpuFacts(),
    memory: memoryFacts(),
    tools: toolReports,
    libtorch,
    cache: cacheFacts(env),
    nvidia,
    kernelChecks: checks,
    addon,
    problems,
    notes,
  };
}
