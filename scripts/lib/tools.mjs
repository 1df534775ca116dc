/** The programs that set-up needs, and the message for each one that is missing or too old. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SetupError } from './errors.mjs';
import { capture, which } from './run.mjs';
import { atLeast } from './versions.mjs';

const CMAKE_AT_LEAST = '3.18';
const GLIBC_AT_LEAST = '2.28'; // the official builds are manylinux_2_28
const NODE_AT_LEAST = '20.18.1';

/** @typedef {'cmake' | 'c++' | 'make' | 'python3' | 'pip'} Tool */
const APT = {
  program: 'apt-get',
  command: 'sudo apt-get install -y',
  names: { cmake: 'cmake', 'c++': 'g++', make: 'make', python3: 'python3', pip: 'python3-pip' },
};
/** Package names by package manager; the first manager found on PATH is used. */
const INSTALLERS = [
  APT,
  {
    program: 'dnf',
    command: 'sudo dnf install -y',
    names: { cmake: 'cmake', 'c++': 'gcc-c++', make: 'make', python3: 'python3', pip: 'python3-pip' },
  },
  {
    program: 'zypper',
    command: 'sudo zypper install -y',
    names: { cmake: 'cmake', 'c++': 'gcc-c++', make: 'make', python3: 'python3', pip: 'python3-pip' },
  },
  {
    program: 'pacman',
    command: 'sudo pacman -S --noconfirm',
    names: { cmake: 'cmake', 'c++': 'gcc', make: 'make', python3: 'python', pip: 'python-pip' },
  },
];

/** The command that installs a tool here. @param {Tool} tool @param {NodeJS.ProcessEnv} env */
export function installCommand(tool, env) {
  const installer = INSTALLERS.find((entry) => which(entry.program, env)) ?? APT;
  return `${installer.command} ${installer.names[tool]}`;
}

/**
 * @typedef {{name: string, path: string | null, version: string | null, problem: string | null}} ToolReport
 * `problem` is the complete sentence with the command that fixes it.
 */

/**
 * @param {string} name
 * @param {string | null} path
 * @param {string | null} version
 * @param {string | null} problem
 * @returns {ToolReport}
 */
function report(name, path, version, problem) {
  return { name, path, version, problem };
}

/** @param {NodeJS.ProcessEnv} env */
export function checkCmake(env) {
  const path = which('cmake', env);
  if (!path) return report('cmake', null, null, `cmake is missing: run \`${installCommand('cmake', env)}\`.`);
  const version = /version (\d+\.\d+(\.\d+)?)/.exec(capture(path, ['--version'], env).stdout)?.[1] ?? null;
  const old = version !== null && !atLeast(version, CMAKE_AT_LEAST);
  const problem = old
    ? `cmake ${version} (${path}) is too old, ${CMAKE_AT_LEAST} is needed: run \`python3 -m pip install --user cmake\` and put ~/.local/bin first on PATH.`
    : null;
  return report('cmake', path, version, problem);
}

/** Make or Ninja: cmake-js uses Ninja if it exists. @param {NodeJS.ProcessEnv} env */
export function checkMake(env) {
  const ninja = which('ninja', env);
  const path = ninja ?? which('make', env);
  const problem = path ? null : `make is missing: run \`${installCommand('make', env)}\`.`;
  const name = ninja ? 'ninja' : 'make';
  const version = path
    ? (/\d+\.\d+(\.\d+)?/.exec(capture(path, ['--version'], env).stdout)?.[0] ?? null)
    : null;
  return report(name, path, version, problem);
}

// The C++20 features used by the core and libtorch's headers.
const CXX20_PROBE = `#include <concepts>
#include <memory>
#include <span>
#include <vector>
template <std::integral T> T sum(std::span<const T> values) { T s{}; for (T v : values) s += v; return s; }
struct Point { int x, y; bool operator==(const Point&) const = default; };
int main() { std::vector<int> v{1, 2}; return Point{.x = 1, .y = 2} == Point{1, 2} ? sum<int>(v) : 0; }
`;

/**
 * Compiles a small C++20 file; returns the compiler's message, or null if it succeeded.
 * @param {string} compiler @param {NodeJS.ProcessEnv} env
 */
function cxx20Failure(compiler, env) {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-cxx-'));
  try {
    const source = join(folder, 'probe.cpp');
    writeFileSync(source, CXX20_PROBE);
    const result = capture(compiler, ['-std=c++20', '-fsyntax-only', source], env);
    return result.ok
      ? null
      : (result.stderr.split('\n').find((line) => line.includes('error')) ?? 'it failed');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * The compiler that CMake will use: CXX, else the first of c++, g++ and clang++.
 * @param {NodeJS.ProcessEnv} env
 */
export function checkCompiler(env) {
  const asked = env.CXX?.trim().split(/\s+/)[0];
  const path = asked
    ? which(asked, env)
    : (['c++', 'g++', 'clang++'].map((name) => which(name, env)).find(Boolean) ?? null);
  const install = installCommand('c++', env);
  if (!path) {
    const what = asked
      ? `CXX names ${asked}, which does not exist: unset CXX or`
      : 'a C++ compiler is missing:';
    return report('c++', null, null, `${what} run \`${install}\`.`);
  }
  const version =
    /\d+\.\d+(\.\d+)?/.exec(capture(path, ['-dumpfullversion', '-dumpversion'], env).stdout)?.[0] ?? null;
  const failure = cxx20Failure(path, env);
  const problem = failure
    ? `${path} ${version ?? ''} cannot compile C++20 (${failure.trim()}): install g++ 11 or newer (\`${install}\`) and point CXX at it.`
    : null;
  return report('c++', path, version, problem);
}

/** @param {NodeJS.ProcessEnv} env */
export function checkPython(env) {
  const path = which(env.PYTHON || 'python3', env);
  if (!path)
    return report('python3', null, null, `python3 is missing: run \`${installCommand('python3', env)}\`.`);
  const version = /\d+\.\d+(\.\d+)?/.exec(capture(path, ['--version'], env).stdout)?.[0] ?? null;
  return report('python3', path, version, null);
}

/** @param {NodeJS.ProcessEnv} env */
export function checkPip(env) {
  const python = checkPython(env);
  if (!python.path) return report('pip', null, null, python.problem);
  const result = capture(python.path, ['-m', 'pip', '--version'], env);
  if (!result.ok) {
    return report(
      'pip',
      null,
      null,
      `pip is missing for ${python.path}: run \`${installCommand('pip', env)}\`.`,
    );
  }
  return report('pip', python.path, /pip (\S+)/.exec(result.stdout)?.[1] ?? null, null);
}

/** The C library's version, or null if it is not glibc. */
export function glibcVersion() {
  // `header` is typed as object.
  const header = /** @type {{header: {glibcVersionRuntime?: string}}} */ (process.report.getReport()).header;
  return header.glibcVersionRuntime ?? null;
}

/** The message for a machine on which no installation helps, or null. */
export function platformProblem(platform = process.platform, arch = process.arch, glibc = glibcVersion()) {
  if (platform !== 'linux' || arch !== 'x64') {
    return `acoer runs on Linux x64, but this is ${platform} ${arch}: use a Linux x64 machine, container or WSL 2.`;
  }
  if (glibc === null)
    return 'this Linux has no glibc (Alpine?), which libtorch needs: use a Debian- or Ubuntu-based image.';
  if (!atLeast(glibc, GLIBC_AT_LEAST)) {
    return `glibc ${glibc} is older than libtorch's ${GLIBC_AT_LEAST}: use a newer distribution (Debian 11, Ubuntu 20.04, RHEL 8 or later).`;
  }
  if (!atLeast(process.versions.node, NODE_AT_LEAST)) {
    return `Node ${process.versions.node} is too old: install Node ${NODE_AT_LEAST} or newer.`;
  }
  return null;
}

/** Throws the first problem with the tools needed for compiling. @param {NodeJS.ProcessEnv} env */
export function requireBuildTools(env) {
  for (const check of [checkCmake, checkMake, checkCompiler]) {
    const { problem } = check(env);
    if (problem) throw new SetupError(problem);
  }
}

/**
 * The NVIDIA driver's version, such as "580.65.06", or null. `/proc` comes first: it is instant and needs no
 * program.
 * @param {NodeJS.ProcessEnv} env @param {string} [procFile]
 */
export function nvidiaDriver(env, procFile = '/proc/driver/nvidia/version') {
  try {
    const version = /Kernel Module.*?\s(\d+\.\d+(\.\d+)?)/.exec(readFileSync(procFile, 'utf8'))?.[1];
    if (version) return version;
  } catch {
    // No kernel module here, or a container hides it: nvidia-smi decides.
  }
  const smi = which('nvidia-smi', env);
  if (!smi) return null;
  const result = capture(smi, ['--query-gpu=driver_version', '--format=csv,noheader'], env);
  return result.ok ? (/^\d+\.\d+(\.\d+)?/.exec(result.stdout.trim())?.[0] ?? null) : null;
}
