/**
 * Writes the source of a stand-in for every NVIDIA library that a CUDA build of libtorch loads:
 *
 *   node stand-ins.mjs LIBTORCH/lib OUT
 *
 * OUT/NAME.cpp defines each function that libtorch uses of the library as one that returns 0. The symbols
 * are weak, so that hand-written ones take precedence. OUT/NAME.map gives them the versions that libtorch
 * asks for. Prints `NAME;SONAME` per library.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [libraries, out] = process.argv.slice(2);
const TORCH = ['c10_cuda', 'torch_cpu', 'torch_cuda', 'torch_nvshmem', 'caffe2_nvrtc']
  .map((name) => join(libraries, `lib${name}.so`))
  .filter((file) => existsSync(file));

/** Prefixes of function names and their library; the first match counts. */
const PREFIXES = [
  ['cusparseLt', 'cusparseLt'],
  ['cusparse', 'cusparse'],
  ['cublasLt', 'cublasLt'],
  ['cublas', 'cublas'],
  ['curand', 'curand'],
  ['cudnn', 'cudnn'],
  ['cufft', 'cufft'],
  ['cusolver', 'cusolver'],
  ['nccl', 'nccl'],
  ['pnccl', 'nccl'],
  ['cuFile', 'cufile'],
  ['nvshmem', 'nvshmem_host'],
  ['cupti', 'cupti'],
  ['nvrtc', 'nvrtc'],
  ['__cuda', 'cudart'],
  ['cuda', 'cudart'],
  ['cu', 'cuda'],
];

const lines = (program, ...args) =>
  execFileSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 28 }).split('\n');

/** name -> soname */
const sonames = new Map();
/** name -> version ('' for none) -> functions */
const wanted = new Map();
for (const file of TORCH) {
  for (const line of lines('readelf', '-d', file)) {
    const soname = /NEEDED.*\[(lib(\w+)\.so\.\d+)\]/.exec(line);
    if (soname && PREFIXES.some(([, name]) => name === soname[2])) sonames.set(soname[2], soname[1]);
  }
}
for (const name of sonames.keys()) wanted.set(name, new Map());
for (const file of TORCH) {
  for (const line of lines('nm', '-D', '--undefined-only', file)) {
    const [, symbol, version] = /\bU (\w+)(?:@+(\S+))?$/.exec(line) ?? [];
    const name = symbol && PREFIXES.find(([prefix]) => symbol.startsWith(prefix))?.[1];
    const versions = name && wanted.get(name);
    if (!versions) continue;
    if (!versions.has(version ?? '')) versions.set(version ?? '', new Set());
    versions.get(version ?? '').add(symbol);
  }
}

mkdirSync(out, { recursive: true });
for (const [name, versions] of wanted) {
  const functions = [...new Set([...versions.values()].flatMap((symbols) => [...symbols]))].sort();
  const stubs = functions.map((symbol) => `__attribute__((weak)) long ${symbol}() { return 0; }\n`);
  writeFileSync(join(out, `${name}.cpp`), `extern "C" {\n${stubs.join('')}}\n`);
  const nodes = [...versions].filter(([version]) => version !== '');
  const map = nodes.map(
    ([version, symbols]) => `${version} { global: ${[...symbols].sort().join('; ')}; };\n`,
  );
  writeFileSync(join(out, `${name}.map`), map.join(''));
  process.stdout.write(`${name};${sonames.get(name)}\n`);
}
