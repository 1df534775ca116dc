/**
 * The CUDA path's host side over stand-ins for NVIDIA's libraries (docs/gpu.md): memory, KV budget, device guard, and
 * the number of launches, uploads and waits of a decoded token. Needs a CUDA build of libtorch and minutes of compiling
 * once, so it runs where `scripts/null-cuda` was run before, or where the variable names a libtorch.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { needs } from '../helpers/needs';

const ROOT = join(__dirname, '..', '..');
const built = existsSync(join(ROOT, 'native', 'build-null-cuda', 'bare', 'acoer-null-cuda'));
const wanted = built || process.env.ACOER_NULL_CUDA_LIBTORCH !== undefined;

needs('scripts/null-cuda run once, or ACOER_NULL_CUDA_LIBTORCH', wanted).test(
  'the CUDA path over stand-ins (scripts/null-cuda builds them)',
  () => {
    const { status, stdout, stderr } = spawnSync(join(ROOT, 'scripts', 'null-cuda'), {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    });
    expect({ status, output: stdout + stderr }).toEqual({
      status: 0,
      output: expect.stringMatching(
        /(\d+) of \1 tests passed[^]*(\d+) of \2 tests passed[^]*(\d+) of \3 tests passed/,
      ),
    });
    console.log(stdout);
  },
  30 * 60_000,
);
