/** Identifies a libtorch folder from its files, without loading anything. */
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isSupported, supportedRange } from './versions.mjs';

/**
 * @typedef {{root: string, version: string, flavour: string}} Libtorch
 * `root` contains include/ and lib/; `version` has no local part; `flavour` is cpu or cuNNN.
 */

const LIBRARY = 'lib/libtorch_cpu.so';
const NEEDED = [
  LIBRARY,
  'lib/libc10.so',
  'include/ATen/ATen.h',
  'include/torch/csrc/api/include/torch/version.h',
];

/** @param {string} file */
function readIfThere(file) {
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

/** `TORCH_VERSION` of the headers, which the compiler will see. @param {string} root */
function headerVersion(root) {
  for (const file of [
    'include/torch/headeronly/version.h',
    'include/torch/csrc/api/include/torch/version.h',
  ]) {
    const text = readIfThere(join(root, file));
    const whole = /^#define TORCH_VERSION "(\d+\.\d+\.\d+)/m.exec(text)?.[1];
    if (whole) return whole;
    const number = ['MAJOR', 'MINOR', 'PATCH'].map(
      (part) => new RegExp(`^#define TORCH_VERSION_${part} (\\d+)`, 'm').exec(text)?.[1],
    );
    if (number.every((part) => part !== undefined)) return number.join('.');
  }
  return null;
}

/** @param {string} root */
function flavourOf(root) {
  const python = readIfThere(join(root, 'version.py'));
  const label =
    readIfThere(join(root, 'build-version')).trim() || (/__version__ = '([^']+)'/.exec(python)?.[1] ?? '');
  const local = label.split('+')[1];
  if (local) return local;
  const cuda = /^cuda.*= '(\d+)\.(\d+)'/m.exec(python);
  if (cuda) return `cu${cuda[1]}${cuda[2]}`;
  return existsSync(join(root, 'lib', 'libtorch_cuda.so')) ? 'cuda' : 'cpu';
}

/**
 * @param {string} folder one with include/ and lib/, or its parent
 * @returns {{libtorch: Libtorch, problem: null} | {libtorch: null, problem: string}}
 * `problem` completes a sentence.
 */
export function inspect(folder) {
  const root = [folder, join(folder, 'libtorch'), join(folder, 'torch')].find((path) =>
    existsSync(join(path, LIBRARY)),
  );
  if (!root) {
    const what = existsSync(folder) ? 'has no lib/libtorch_cpu.so' : 'does not exist';
    return { libtorch: null, problem: what };
  }
  const absent = NEEDED.find((file) => !existsSync(join(root, file)));
  if (absent) return { libtorch: null, problem: `is incomplete: ${absent} is missing` };
  const version = headerVersion(root);
  if (version === null)
    return { libtorch: null, problem: 'has no version in include/torch/headeronly/version.h' };
  if (!isSupported(version)) {
    return { libtorch: null, problem: `is libtorch ${version}, but acoer builds with ${supportedRange}` };
  }
  return { libtorch: { root: realpathSync(root), version, flavour: flavourOf(root) }, problem: null };
}

/** Changes if the files are replaced in place, as by `pip install -U torch`. @param {string} root */
export function fingerprint(root) {
  const { size, mtimeMs } = statSync(join(root, 'lib', 'libtorch_cpu.so'));
  return `${size}-${Math.round(mtimeMs)}`;
}
