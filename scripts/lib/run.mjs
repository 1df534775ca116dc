/** Runs other programs: found on a given PATH, with captured output, and never through a shell. */
import { spawn, spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/** @param {string} file */
function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false; // missing or not executable by us
  }
}

/** The full path of a program on `env.PATH`, or null. @param {string} name @param {NodeJS.ProcessEnv} env */
export function which(name, env) {
  if (isAbsolute(name)) return isExecutable(name) ? name : null;
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    if (folder !== '' && isExecutable(join(folder, name))) return join(folder, name);
  }
  return null;
}

/**
 * Runs a quick command and returns its output.
 * @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} env @param {number} [timeoutMs]
 * @returns {{ok: boolean, stdout: string, stderr: string, signal: string | null}}
 */
export function capture(program, args, env, timeoutMs = 30_000) {
  const result = spawnSync(program, args, { env, encoding: 'utf8', timeout: timeoutMs });
  const stderr = result.error ? result.error.message : (result.stderr ?? '');
  return { ok: result.status === 0, stdout: result.stdout ?? '', stderr, signal: result.signal };
}

const TAIL_CHARS = 64_000;

/**
 * Runs a long command. Output goes to `onText` as it arrives, and the last part of it is returned.
 * @param {string} program @param {string[]} args
 * @param {{env: NodeJS.ProcessEnv, cwd?: string, onText?: (text: string) => void}} options
 * @returns {Promise<{code: number | null, signal: string | null, output: string}>}
 */
export function stream(program, args, { env, cwd, onText }) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const pipe of [child.stdout, child.stderr]) {
      pipe.setEncoding('utf8');
      pipe.on('data', (/** @type {string} */ text) => {
        output = (output + text).slice(-TAIL_CHARS);
        onText?.(text);
      });
    }
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, output }));
  });
}
