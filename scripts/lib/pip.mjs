/**
 * Gets the torch wheel (for CUDA also NVIDIA's) with this machine's pip and unpacks it; nothing is installed.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { diskFull, SetupError, SourceFailure } from './errors.mjs';
import { progress, say } from './log.mjs';
import { stream } from './run.mjs';
import { checkPip } from './tools.mjs';
import { unpack } from './unpack.mjs';

/**
 * Bytes of all files below a folder; files that disappear meanwhile count as 0.
 * @param {string} folder
 * @returns {number}
 */
function bytesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(
      (entry) =>
        statSync(join(entry.parentPath ?? entry.path, entry.name), { throwIfNoEntry: false })?.size ?? 0,
    )
    .reduce((sum, size) => sum + size, 0);
}

const UNITS = { kB: 1e3, MB: 1e6, GB: 1e9 };

/** Total of the bytes pip announced in lines like `Downloading x.whl (555.0 MB)`. @param {string} output */
function announcedBytes(output) {
  let total = 0;
  for (const [, size, unit] of output.matchAll(/^\s*Downloading .*\((\d+(?:\.\d+)?) (kB|MB|GB)\)/gm)) {
    total += Number(size) * UNITS[/** @type {keyof UNITS} */ (unit)];
  }
  return total;
}

/** The reason given by pip, without passwords in addresses. @param {string} output */
function pipReason(output) {
  const lines = output.split('\n').filter((line) => /^\s*(ERROR|error):?/.test(line));
  const text = (lines.at(-1) ?? output.trim().split('\n').at(-1) ?? '').replace(/^\s*ERROR:\s*/, '');
  return text.replace(/\/\/[^/\s@]*@/g, '//').slice(0, 300) || 'it gave no reason';
}

/**
 * Runs `pip download` into `folder/wheels`; pip's temporary files stay in `folder`, on the disk whose space
 * was checked.
 * @param {string[]} args @param {string} folder @param {NodeJS.ProcessEnv} env @param {string} what
 */
async function pipDownload(args, folder, env, what) {
  const pip = checkPip(env);
  if (!pip.path) throw new SetupError(/** @type {string} */ (pip.problem));
  const scratch = join(folder, 'pip');
  const wheels = join(folder, 'wheels');
  for (const path of [scratch, wheels]) mkdirSync(path, { recursive: true });
  const bar = progress(`pip download ${what}`);
  let seen = '';
  const ticker = setInterval(() => bar.update(bytesBelow(folder), announcedBytes(seen) || null), 500);
  const common = ['-m', 'pip', 'download', '--no-cache-dir', '--disable-pip-version-check', '--no-input'];
  const flags = ['--retries', '1', '--progress-bar', 'off', '--only-binary', ':all:', '-d', wheels];
  try {
    const result = await stream(pip.path, [...common, ...flags, ...args], {
      env: { ...env, TMPDIR: scratch },
      onText: (text) => (seen += text),
    });
    if (result.code === 0) return wheels;
    if (/No space left on device|Disk quota exceeded/.test(result.output)) throw diskFull(folder);
    throw new SourceFailure(`pip cannot get ${what}: ${pipReason(result.output)}`);
  } finally {
    clearInterval(ticker);
    bar.end();
    rmSync(scratch, { recursive: true, force: true });
  }
}

// libtorch needs no Python, so the wheel of another Python version will do if there is none for this one.
const OTHER_PYTHON = [
  '--python-version',
  '3.12',
  '--implementation',
  'cp',
  '--abi',
  'cp312',
  '--platform',
  'manylinux_2_28_x86_64',
];

/** @param {string} version @param {string} folder @param {NodeJS.ProcessEnv} env */
async function torchWheel(version, folder, env) {
  const spec = `torch==${version}`;
  try {
    await pipDownload(['--no-deps', spec], folder, env, spec);
  } catch (error) {
    const noWheel = error instanceof SourceFailure && /No matching distribution/.test(error.message);
    if (!noWheel) throw error;
    await pipDownload(['--no-deps', ...OTHER_PYTHON, spec], folder, env, `${spec} (for Python 3.12)`);
  }
  const wheels = join(folder, 'wheels');
  const name = readdirSync(wheels).find((file) => /^torch-.*\.whl$/.test(file));
  if (!name) throw new SourceFailure(`pip succeeded but left no torch wheel`);
  return join(wheels, name);
}

/**
 * NVIDIA requirements of the torch wheel, without their markers. Triton and the Python bindings are excluded,
 * because only Python code uses them.
 * @param {string} metadata
 */
export function nvidiaRequirements(metadata) {
  return [...metadata.matchAll(/(?<=^Requires-Dist: )(?:nvidia-|cuda-toolkit)[^;\n]*/gm)].map(([spec]) =>
    spec.replace(/\s+/g, ''),
  );
}

/** @param {string} tree @returns {string} */
function metadataOf(tree) {
  const info = readdirSync(tree).find((name) => /^torch-.*\.dist-info$/.test(name));
  return info ? readFileSync(join(tree, info, 'METADATA'), 'utf8') : '';
}

/**
 * Fills `folder/tree` from wheels; the tree then contains torch/ and, for CUDA, nvidia/ next to it, where
 * libtorch's run path looks.
 * @param {{version: string, flavour: string}} wanted @param {string} folder @param {NodeJS.ProcessEnv} env
 */
export async function fetchWheels({ version, flavour }, folder, env) {
  const tree = join(folder, 'tree');
  const wheel = await torchWheel(version, folder, env);
  const local = /^torch-[^-+]*\+([a-z0-9]+)-/.exec(wheel.slice(wheel.lastIndexOf('/') + 1))?.[1];
  if (local && local !== flavour)
    throw new SourceFailure(`pip offers torch ${version} for ${local}, not for ${flavour}`);
  await unpack('wheel', wheel, tree, env);
  rmSync(wheel);
  if (flavour === 'cpu') return tree;
  const needs = nvidiaRequirements(metadataOf(tree));
  if (needs.length === 0) return tree;
  say(`the CUDA libraries, ${needs.length} packages`);
  const wheels = await pipDownload(needs, folder, env, "NVIDIA's libraries");
  for (const name of readdirSync(wheels).sort()) {
    if (name.startsWith('nvidia_')) await unpack('wheel', join(wheels, name), tree, env);
    rmSync(join(wheels, name));
  }
  return tree;
}
