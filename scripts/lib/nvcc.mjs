/** How NVIDIA's compilers make the kernels of `native/cuda/kernels/kernels.cu`. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export const ARCHITECTURES = ['80', '86', '89', '90'];

/**
 * Flags for machine code of these architectures. Relaxed: kernels call constexpr functions of headers that the host
 * compiles too.
 *
 * @param {string[]} architectures
 */
export function kernelFlags(architectures) {
  const targets = architectures.flatMap((n) => ['-gencode', `arch=compute_${n},code=sm_${n}`]);
  return ['-std=c++17', '-O3', '--expt-relaxed-constexpr', '-fatbin', '-Xptxas', '-v', ...targets];
}

/** "13.0.88"; null without nvcc. */
export function nvccVersion() {
  const { stdout } = spawnSync('nvcc', ['--version'], { encoding: 'utf8' });
  return /\bV(\d+\.\d+\.\d+)/.exec(stdout ?? '')?.[1] ?? null;
}

/** Machine code for drivers of CUDA 12, one file each; sm_86 is also that of 8.9. */
export const OLDER_ARCHITECTURES = ['80', '86', '90'];

/**
 * Flags of NVIDIA's run-time compiler for one architecture. The kernels' headers have functions of the host without an
 * annotation, which -default-device compiles too.
 *
 * @param {string} architecture
 */
export function nvrtcFlags(architecture) {
  const target = `--gpu-architecture=sm_${architecture}`;
  return [target, '-std=c++17', '-default-device', '-D__CUDACC__', '-DACOER_FEWER_KERNELS', '-I.'];
}

/**
 * The run-time compiler in a folder of `pip install --target`: its version, library and the headers for it; null
 * without them.
 *
 * @param {string | undefined} folder
 */
export function findNvrtc(folder) {
  if (folder === undefined || !existsSync(folder)) return null;
  const version = readdirSync(folder)
    .map((name) => /^nvidia_cuda_nvrtc_cu12-(.+)\.dist-info$/.exec(name)?.[1])
    .find((found) => found !== undefined);
  const lib = join(folder, 'nvidia', 'cuda_nvrtc', 'lib');
  const headers = join(folder, 'nvidia', 'cuda_runtime', 'include');
  if (version === undefined || !existsSync(join(headers, 'cuda_bf16.h'))) return null;
  return { version, lib, library: join(lib, 'libnvrtc.so.12'), headers };
}
