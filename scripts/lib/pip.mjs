/**
 * Gets the torch wheel (for CUDA also NVIDIA's) with this machine's pip and unpacks it; nothing is installed.
 */
import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { requireDigest } from './digest.mjs';
import { diskFull, SetupError, SourceFailure } from './errors.mjs';
import { progress, say } from './log.mjs';
import { stream } from './run.mjs';
import { checkPip } from './tools.mjs';
import { unpack } from './unpack.mjs';
import { pinOf } from './versions.mjs';

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
  return text.replace(/\/\/[^/\s]*@/g, '//').slice(0, 300) || 'it gave no reason';
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
  const flags = [
    '--retries',
    '1',
    '--progress-bar',
    'off',
    '--no-deps',
    '--only-binary',
    ':all:',
    '-d',
    wheels,
  ];
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

/**
 * libtorch needs no Python, so one wheel, which is pinned, serves every Python.
 */
const PINNED_PYTHON = [
  '--python-version',
  '3.11',
  '--implementation',
  'cp',
  '--abi',
  'cp311',
  '--platform',
  'manylinux_2_28_x86_64',
];

/** `torch==2.13.0+cpu`, of the wheel's name. @param {string} wheel */
function requirementOf(wheel) {
  const [name, version] = wheel.split('-');
  return `${name}==${version}`;
}

/**
 * Unpacks the wheels, all of which must be pinned, and removes them.
 * @param {string} wheels @param {Record<string, string>} digests @param {string} tree @param {NodeJS.ProcessEnv} env
 */
async function unpackPinned(wheels, digests, tree, env) {
  for (const name of readdirSync(wheels).sort()) {
    const file = join(wheels, name);
    const digest = digests[name];
    if (digest === undefined) throw new SourceFailure(`pip got ${name}, which is not the pinned wheel`);
    await requireDigest(file, digest);
    await unpack('wheel', file, tree, env);
    rmSync(file);
  }
}

/**
 * Fills `folder/tree` from the pinned wheels; the tree then contains torch/ and, for CUDA, nvidia/ next to it,
 * where libtorch's run path looks.
 * @param {{version: string, flavour: string}} wanted @param {string} folder @param {NodeJS.ProcessEnv} env
 */
export async function fetchWheels({ version, flavour }, folder, env) {
  const digests = pinOf(flavour).wheels;
  const [torch, ...nvidia] = Object.keys(digests);
  if (torch === undefined) throw new SourceFailure(`no wheels of torch ${version} for ${flavour} are pinned`);
  const tree = join(folder, 'tree');
  const spec = requirementOf(torch);
  const wheels = await pipDownload([...PINNED_PYTHON, spec], folder, env, spec);
  await unpackPinned(wheels, digests, tree, env);
  if (nvidia.length === 0) return tree;
  say(`the CUDA libraries, ${nvidia.length} packages`);
  await pipDownload(nvidia.map(requirementOf), folder, env, "NVIDIA's libraries");
  await unpackPinned(wheels, digests, tree, env);
  return tree;
}
