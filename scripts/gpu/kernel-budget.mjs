#!/usr/bin/env node
/**
 * Registers, shared memory and spills of the CUDA kernels, as nvcc reports them; no GPU is needed.
 *
 *   node scripts/gpu/kernel-budget.mjs [--check | --write] [--arch 80,86,89,90]
 *
 * Prints a table. The budget (`scripts/gpu/budget.json`) gives a kernel's registers, rounded up to the 8 that a
 * GPU gives at a time, and its bytes of shared memory, over all four architectures. With `--check` the exit code is 1
 * when a kernel takes more, takes local memory (a spill or a stack frame), or is missing from either side. `--write`
 * makes the budget anew. Exit code 2: nvcc is missing or failed.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ARCHITECTURES, kernelFlags } from '../lib/nvcc.mjs';
import { packageRoot } from '../lib/paths.mjs';
import { scriptArguments } from '../lib/arguments.mjs';

const KERNELS = join(packageRoot, 'native', 'cuda', 'kernels');
const BUDGET = join(import.meta.dirname, 'budget.json');

const { values } = scriptArguments(import.meta.url, {
  options: {
    check: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    arch: { type: 'string', default: ARCHITECTURES.join(',') },
  },
});
const architectures = values.arch.split(',');
if (values.write && architectures.join() !== ARCHITECTURES.join()) fail('--write takes all architectures');

/** @param {string} message @returns {never} */
function fail(message) {
  process.stderr.write(`kernel-budget: ${message}\n`);
  process.exit(2);
}

/** What ptxas says of each kernel on each architecture. */
function measure() {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-kernels-'));
  const file = join(KERNELS, 'kernels.cu');
  const result = spawnSync(
    'nvcc',
    [...kernelFlags(architectures), '-o', join(folder, 'kernels.fatbin'), file],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    },
  );
  rmSync(folder, { recursive: true });
  if (result.error) fail('nvcc is missing; install the CUDA toolkit and put its bin folder on PATH');
  const text = result.stdout + result.stderr;
  if (result.status !== 0) fail(`nvcc failed:\n${text}`);
  const report =
    /entry function '(\w+)' for 'sm_(\w+)'[^]*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads[^]*?Used (\d+) registers([^\n]*)/g;
  return [...text.matchAll(report)].map(([, name, arch, frame, stores, loads, registers, rest]) => ({
    name,
    arch,
    registers: Number(registers),
    shared: Number(/(\d+) bytes smem/.exec(rest)?.[1] ?? 0),
    local: Number(frame) + Number(stores) + Number(loads),
  }));
}

const found = measure();
const names = [...new Set(found.map(({ name }) => name))].sort((a, b) =>
  a.localeCompare(b, 'en', { numeric: true }),
);
const of = (name) => found.filter((kernel) => kernel.name === name);
const largest = (name, key) => Math.max(...of(name).map((kernel) => kernel[key]));

const width = Math.max(...names.map((name) => name.length));
const heading = architectures.map((arch) => `sm_${arch}`.padStart(6)).join('');
console.log(`${'registers'.padEnd(width)}${heading}  shared bytes  local bytes`);
for (const name of names) {
  const registers = architectures.map(
    (arch) => of(name).find((kernel) => kernel.arch === arch)?.registers ?? '-',
  );
  const cells = registers.map((n) => String(n).padStart(6)).join('');
  const shared = String(largest(name, 'shared')).padStart(14);
  console.log(name.padEnd(width) + cells + shared + String(largest(name, 'local')).padStart(13));
}

if (values.write) {
  const budget = Object.fromEntries(
    names.map((name) => [
      name,
      { registers: Math.ceil(largest(name, 'registers') / 8) * 8, shared: largest(name, 'shared') },
    ]),
  );
  writeFileSync(BUDGET, `${JSON.stringify(budget, null, 2)}\n`);
}

if (values.check) {
  const budget = JSON.parse(readFileSync(BUDGET, 'utf8'));
  const wrong = Object.keys(budget)
    .filter((name) => !names.includes(name))
    .map((name) => `${name} is in the budget and nowhere else`);
  for (const { name, arch, registers, shared, local } of found) {
    const limit = budget[name];
    if (local > 0) wrong.push(`${name} on sm_${arch} takes ${local} bytes of local memory`);
    if (!limit) {
      if (arch === architectures[0]) wrong.push(`${name} has no budget`);
      continue;
    }
    for (const [key, value] of Object.entries({ registers, shared })) {
      if (value > limit[key]) wrong.push(`${name} on sm_${arch}: ${value} ${key}, not ${limit[key]}`);
    }
  }
  console.log(wrong.length ? wrong.join('\n') : `${names.length} kernels are within their budgets.`);
  process.exitCode = wrong.length ? 1 : 0;
}
