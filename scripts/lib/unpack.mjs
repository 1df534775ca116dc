/** Runs unpack.py, which verifies while unpacking. */
import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { diskFull, SetupError, SourceFailure } from './errors.mjs';
import { progress } from './log.mjs';
import { packageRoot } from './paths.mjs';
import { stream } from './run.mjs';
import { checkPython } from './tools.mjs';

/**
 * @param {'archive' | 'wheel'} kind
 * @param {string} file
 * @param {string} destination
 * @param {NodeJS.ProcessEnv} env
 * Throws SourceFailure if the file is broken, SetupError if the disk is full or there is no Python.
 */
export async function unpack(kind, file, destination, env) {
  const python = checkPython(env);
  if (!python.path) throw new SetupError(/** @type {string} */ (python.problem));
  const bar = progress(`unpacking ${basename(file)}`);
  const script = join(packageRoot, 'scripts', 'lib', 'unpack.py');
  const result = await stream(python.path, ['-I', script, kind, file, destination], {
    env,
    onText(text) {
      const at = /progress (\d+) (\d+)\n$/.exec(text);
      if (at) bar.update(Number(at[1]), Number(at[2]));
    },
  });
  bar.end();
  if (result.code === 0) return;
  const [, kindOfFailure, text] = /^(full|broken) (.*)$/m.exec(result.output) ?? [];
  if (kindOfFailure === 'full') throw diskFull(destination);
  const why =
    text ?? (result.output.trim().split('\n').at(-1) || `python3 ended with ${result.signal ?? result.code}`);
  throw new SourceFailure(`${basename(file)} (${statSync(file).size} bytes) is broken: ${why}`);
}
