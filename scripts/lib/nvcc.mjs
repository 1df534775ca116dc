/** How nvcc compiles `native/cuda/kernels/kernels.cu`. */
import { spawnSync } from 'node:child_process';

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
