/** Loads the native addons, and says what is wrong with one that cannot be loaded. */
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, fstatSync, readSync } from 'node:fs';
import { join, resolve } from 'node:path';
import bindings from 'bindings';
import { AcoerError, errorMessage } from './errors';
import { openRegularFileSync } from './regular-file';

const HEADER_BYTES = 64;

/**
 * Whether a 64-bit ELF file ends before its section table, which linkers write last. dlopen maps such a file
 * without an error, and the process dies of SIGBUS at the first missing page. What else is wrong, dlopen reports.
 */
function isCutOff(path: string): boolean {
  const file = openRegularFileSync(path);
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    const read = readSync(file, header, 0, HEADER_BYTES, 0);
    if (read < HEADER_BYTES || header.toString('latin1', 0, 4) !== '\x7fELF') return false;
    const sectionTable = Number(header.readBigUInt64LE(0x28));
    const sectionsBytes = header.readUInt16LE(0x3a) * header.readUInt16LE(0x3c);
    return fstatSync(file).size < sectionTable + sectionsBytes;
  } finally {
    closeSync(file);
  }
}

/** The same command fixes any missing piece. */
const MEND = 'run: npx acoer setup';

/** What is wrong with `what`, in one sentence, from what loading it threw. */
export function describeLoadFailure(what: string, file: string, error: unknown): string {
  const message = errorMessage(error);
  const library = /(lib(?:torch|c10|gomp)[^\s:]*): cannot open shared object file/.exec(message)?.[1];
  if (library !== undefined) {
    // The loader looks on in other folders, and says of one without permission only that nothing was found.
    return `${what} was built against a libtorch that was removed or moved, or that this user may not read (${library} is not found); ${MEND}`;
  }
  if (/undefined symbol|version `/.test(message)) {
    return `${what} does not match the libtorch or system libraries it finds (${message}); ${MEND}`;
  }
  if (/NODE_MODULE_VERSION|invalid ELF header|wrong ELF class|file too short/.test(message)) {
    return `${file} was built for another Node.js or machine, or is truncated (${message}); ${MEND}`;
  }
  return `${what} cannot be loaded (${message}); ${MEND}`;
}

/** Why the prebuilt addons were not taken, empty where there are none; undefined: not tried yet. */
let notTaken: string | undefined;

/**
 * Where set-up never ran, as where install scripts are blocked, takes the prebuilt addons if their libtorch is here.
 * In a process of its own, because they are tried first, and once, because that takes a second.
 */
function takePrebuilt(root: string): string {
  if (notTaken !== undefined) return notTaken;
  notTaken = '';
  const script = join(root, 'scripts', 'setup.mjs');
  if (!existsSync(script)) return notTaken;
  const { stdout } = spawnSync(process.execPath, [script, '--prebuilt'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  return (notTaken = stdout);
}

/**
 * Loads build/Release/`name`.node.
 * @param what its name in messages
 * @throws LOAD_FAILED with the command that fixes it
 */
export function loadAddonFile(name: string, what: string): unknown {
  const root = resolve(__dirname, '..', '..');
  const file = join('build', 'Release', `${name}.node`);
  const path = join(root, file);
  const reason = existsSync(path) ? '' : takePrebuilt(root);
  if (!existsSync(path)) {
    const problem =
      reason === ''
        ? `${what} is not built (${file} is missing)`
        : `the native engine is not set up (${reason})`;
    throw new AcoerError('LOAD_FAILED', `${problem}; ${MEND}`);
  }
  try {
    if (isCutOff(path)) throw new Error('file too short');
    // A libtorch that takes the workspace of every product on a GPU anew could record no CUDA graph (decision 170).
    process.env['TORCH_CUBLAS_WORKSPACE_CACHE'] ??= '1';
    return bindings({ bindings: name, module_root: root });
  } catch (cause) {
    throw new AcoerError('LOAD_FAILED', describeLoadFailure(what, file, cause), { cause });
  }
}
