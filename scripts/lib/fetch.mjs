/**
 * Fetches libtorch into the cache, from the official archive or else wheels; renamed into place when
 * complete.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { randomBytes } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { requireDigest } from './digest.mjs';
import { download } from './download.mjs';
import { diskFull, messageOf, SetupError, SourceFailure, systemCode } from './errors.mjs';
import { cachedFolder, fromCache, MANIFEST } from './find.mjs';
import { inspect } from './inspect.mjs';
import { formatBytes, say } from './log.mjs';
import { cacheFolder, makeFolders, setupCommand } from './paths.mjs';
import { fetchWheels } from './pip.mjs';
import { unpack } from './unpack.mjs';
import { pinOf, pins, supportedRange } from './versions.mjs';

const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * Where archives come from: the official host, or ACOER_LIBTORCH_MIRROR.
 * @param {NodeJS.ProcessEnv} env
 */
function archiveBase(env) {
  const mirror = (env.ACOER_LIBTORCH_MIRROR ?? '').trim();
  if (mirror === '') return pins.archiveBase;
  if (mirror.includes('@'))
    throw new SetupError(
      'ACOER_LIBTORCH_MIRROR contains a user name or password (an @), not shown here: give an address without them.',
    );
  const { protocol, hostname } = URL.canParse(mirror) ? new URL(mirror) : { protocol: '', hostname: '' };
  const isHere = protocol === 'http:' && LOOPBACK.test(hostname);
  if (protocol === 'https:' || protocol === 'file:' || isHere) return mirror.replace(/\/+$/, '');
  throw new SetupError(
    `ACOER_LIBTORCH_MIRROR is ${mirror}: it must begin with https:// or file:///; http is for this machine only.`,
  );
}

/**
 * @param {{version: string, flavour: string}} wanted
 * @param {NodeJS.ProcessEnv} env may name a mirror of the official host
 */
export function archiveUrl({ version, flavour }, env) {
  return `${archiveBase(env)}/${flavour}/libtorch-shared-with-deps-${version}%2B${flavour}.zip`;
}

/**
 * The digest that the archive must have: the pin, or where there is none, the user's.
 * @param {string} flavour @param {string} name @param {NodeJS.ProcessEnv} env
 */
function archiveDigest(flavour, name, env) {
  const given = (env.ACOER_LIBTORCH_SHA256 ?? '').trim().toLowerCase();
  if (given !== '' && !/^[0-9a-f]{64}$/.test(given))
    throw new SetupError('ACOER_LIBTORCH_SHA256 must be a SHA-256 of 64 hexadecimal digits.');
  const digest = pinOf(flavour).archiveSha256 ?? (given === '' ? null : given);
  if (digest !== null) return digest;
  throw new SourceFailure(
    `the SHA-256 of ${name} is not known here, so it is only fetched if ACOER_LIBTORCH_SHA256 gives it`,
  );
}

/** @param {string} url @param {string} file @param {NodeJS.ProcessEnv} env */
async function fetchArchive(url, file, env) {
  if (!url.startsWith('file:')) return download(url, file, { env });
  try {
    await copyFile(new URL(url), file);
  } catch (error) {
    if (systemCode(error) === 'ENOSPC' || systemCode(error) === 'EDQUOT') throw error;
    throw new SourceFailure(`${url} cannot be read (${systemCode(error) ?? messageOf(error)})`);
  }
}

/**
 * @typedef {{name: string, fetch: (folder: string) => Promise<string>}} Source
 * `fetch` fills the folder and returns the tree in it.
 */

/** @param {{version: string, flavour: string}} wanted @param {NodeJS.ProcessEnv} env @returns {Source[]} */
function sourcesOf(wanted, env) {
  const url = archiveUrl(wanted, env);
  const { host, pathname } = new URL(url);
  return [
    {
      name: `official archive from ${host || 'a folder'}`,
      async fetch(folder) {
        const digest = archiveDigest(wanted.flavour, decodeURIComponent(basename(pathname)), env);
        const file = join(folder, 'libtorch.zip');
        await fetchArchive(url, file, env);
        await requireDigest(file, digest);
        const tree = join(folder, 'tree');
        await unpack('archive', file, tree, env);
        rmSync(file);
        return tree;
      },
    },
    { name: 'torch wheel through pip', fetch: (folder) => fetchWheels(wanted, folder, env) },
  ];
}

const STAGING = '.tmp-';
const DAY_MS = 86_400_000;

/**
 * This machine since its start, and the container whose process ids are seen: a cache may be shared with
 * others, where the same number is another process.
 */
function placeOfProcesses() {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
    return `${boot}.${readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')}`;
  } catch {
    return 'unknown'; // no /proc
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === 'EPERM';
  }
}

/** When anything in a folder was last changed. @param {string} folder */
function changedMs(folder) {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return Math.max(...['', ...names].map((name) => lstatSync(join(folder, name)).mtimeMs));
}

/** @param {string} cache @param {string} name */
function isStale(cache, name) {
  const [, place, pid] = /^\.tmp-([^-]+)-(\d+)-/.exec(name) ?? [];
  if (place === placeOfProcesses() && place !== 'unknown') return !isAlive(Number(pid));
  return Date.now() - changedMs(join(cache, name)) > DAY_MS;
}

/**
 * Removes what a killed set-up left behind: at once if it ran among the processes that are seen here, else
 * after a day without a change.
 * @param {string} cache
 */
function removeStaleStaging(cache) {
  for (const name of readdirSync(cache).filter((entry) => entry.startsWith(STAGING))) {
    try {
      if (isStale(cache, name)) rmSync(join(cache, name), { recursive: true, force: true });
    } catch (error) {
      // Another set-up removes it, or is at work in it.
      if (systemCode(error) !== 'ENOENT') throw error;
    }
  }
}

/** @param {string} cache @param {string} flavour */
function prepareCache(cache, flavour) {
  try {
    makeFolders(cache);
    removeStaleStaging(cache);
  } catch (error) {
    throw new SetupError(
      `${cache} cannot be written (${systemCode(error) ?? messageOf(error)}): set XDG_CACHE_HOME to a folder you own.`,
      { cause: error },
    );
  }
  const disk = statfsSync(cache);
  const freeBytes = disk.bavail * disk.bsize;
  const needBytes = pinOf(flavour).diskGB * 1e9;
  if (freeBytes < needBytes) {
    throw new SetupError(
      `libtorch ${flavour} needs ${formatBytes(needBytes)}, but the disk with ${cache} has only ${formatBytes(freeBytes)} free: free some space or set XDG_CACHE_HOME to a folder on a larger disk.`,
    );
  }
}

/**
 * Throws SourceFailure unless the tree is the libtorch that was wanted.
 * @param {string} tree @param {{version: string, flavour: string}} wanted
 */
function requireWanted(tree, wanted) {
  const { libtorch, problem } = inspect(tree);
  if (!libtorch) throw new SourceFailure(`what was fetched ${problem}`);
  if (libtorch.version !== wanted.version || libtorch.flavour !== wanted.flavour) {
    throw new SourceFailure(
      `got libtorch ${libtorch.version} for ${libtorch.flavour} instead of ${wanted.version} for ${wanted.flavour}`,
    );
  }
}

/** @param {string} tree @param {string} target @param {string} source */
function install(tree, target, source) {
  writeFileSync(join(tree, MANIFEST), `${JSON.stringify({ source }, null, 2)}\n`);
  rmSync(target, { recursive: true, force: true });
  try {
    renameSync(tree, target);
  } catch (error) {
    // Another set-up running at the same time was first; its tree is just as good.
    if (systemCode(error) !== 'ENOTEMPTY' && systemCode(error) !== 'EEXIST') throw error;
  }
}

/**
 * Where neither archive nor wheels have a digest there is nothing to try.
 * @param {{version: string, flavour: string}} wanted @param {NodeJS.ProcessEnv} env
 */
function requireDigests({ version, flavour }, env) {
  const { archiveSha256, wheels } = pinOf(flavour);
  const given = (env.ACOER_LIBTORCH_SHA256 ?? '').trim() !== '';
  if (archiveSha256 !== null || given || Object.keys(wheels).length > 0) return;
  const again = setupCommand();
  throw new SetupError(
    `set-up does not fetch libtorch ${version} for ${flavour}, because no SHA-256 of it is known here: run \`python3 -m pip install torch==${version} --index-url https://download.pytorch.org/whl/${flavour}\` and \`${again}\` again, or set LIBTORCH to a folder with include/ and lib/ of libtorch ${supportedRange}, or ACOER_LIBTORCH_SHA256 to the archive's digest from a source you trust; \`${again} --flavour cpu\` does without the GPU.`,
  );
}

/** @param {{version: string, flavour: string}} wanted @param {string[]} reasons */
function nothingWorked({ version, flavour }, reasons) {
  return new SetupError(
    `libtorch ${version} (${flavour}) could not be fetched: ${reasons.join('; ')}. Connect to the internet and run \`${setupCommand()}\` again, or set LIBTORCH to a folder with include/ and lib/ of libtorch ${supportedRange}.`,
  );
}

/**
 * Tries the sources in order; returns the name of the one that filled `target`.
 * @param {Source[]} sources @param {string} staging @param {string} target
 * @param {{version: string, flavour: string}} wanted
 */
async function fillFromFirst(sources, staging, target, wanted) {
  /** @type {string[]} */
  const reasons = [];
  for (const [index, source] of sources.entries()) {
    const folder = join(staging, String(index));
    mkdirSync(folder, { recursive: true });
    try {
      const tree = await source.fetch(folder);
      requireWanted(tree, wanted);
      install(tree, target, source.name);
      return source.name;
    } catch (error) {
      if (systemCode(error) === 'ENOSPC' || systemCode(error) === 'EDQUOT') throw diskFull(staging);
      if (!(error instanceof SourceFailure)) throw error;
      reasons.push(error.message);
      const next = sources[index + 1];
      if (next !== undefined) say(`${error.message}; trying the ${next.name}`);
      rmSync(folder, { recursive: true, force: true });
    }
  }
  throw nothingWorked(wanted, reasons);
}

/**
 * @param {NodeJS.ProcessEnv} env @param {string} flavour
 * @returns {Promise<import('./find.mjs').FoundLibtorch>}
 */
export async function fetchLibtorch(env, flavour) {
  const cache = cacheFolder(env);
  const wanted = { version: pinOf(flavour).version, flavour };
  const target = cachedFolder(env, flavour);
  requireDigests(wanted, env);
  prepareCache(cache, flavour);
  if (existsSync(target)) say(`${target} is incomplete and will be fetched again`);
  const own = `${placeOfProcesses()}-${process.pid}-${randomBytes(4).toString('hex')}`;
  const staging = join(cache, `${STAGING}${own}`);
  mkdirSync(staging);
  const onSignal = (/** @type {NodeJS.Signals} */ signal) => {
    rmSync(staging, { recursive: true, force: true });
    process.exit(signal === 'SIGINT' ? 130 : 143);
  };
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) process.once(signal, onSignal);
  const sizeText = formatBytes(pinOf(flavour).downloadGB * 1e9);
  say(`fetching libtorch ${wanted.version} (${flavour}), about ${sizeText}, once, into ${dirname(target)}`);
  try {
    await fillFromFirst(sourcesOf(wanted, env), staging, target, wanted);
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, onSignal);
    rmSync(staging, { recursive: true, force: true });
  }
  const found = fromCache(env, flavour);
  if (!found)
    throw new SetupError(
      `${target} disappeared while it was being written: run \`${setupCommand()}\` again.`,
    );
  return found;
}
