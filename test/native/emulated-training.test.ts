/**
 * The CUDA kernels of training on a CPU, thread by thread, against float64 (`native/test/emu`); nothing of speed or of a
 * real card. With a bug planted in a kernel its tests must fail.
 */
import { dirname } from 'node:path';
import { rmSync } from 'node:fs';
import { buildEmulated, hasCompiler, runEmulated } from '../helpers/emulator';

jest.setTimeout(30 * 60_000);

// The numbers are those of ACOER_PLANTED in `native/cuda/kernels`.
const PLANTED: [tests: string, bug: string, number: number][] = [
  ['norm_backward', 'no barrier before the sums of the warps are read', 10],
  ['norm_backward', 'elements beyond the end of a row', 201],
  ['norm_backward', 'the rms of the first row for all', 202],
  ['head_norm', 'heads beyond the last one', 210],
  ['head_norm', 'lanes without elements write', 211],
  ['head_norm', 'backward: heads beyond the last one', 212],
  ['head_norm', 'backward: the rotation of the forward pass', 213],
  ['head_norm', 'backward: lanes without elements write', 214],
  ['swiglu_backward', 'elements beyond the end of a row', 220],
  ['swiglu_backward', "the upper half's gradient over the lower's", 221],
  ['log_probs', 'no barrier before the sums of the warps are read', 230],
  ['log_probs', 'logits beyond the vocabulary', 231],
  ['log_probs', 'probabilities beyond the vocabulary', 232],
  ['log_probs', 'the target read after its logit was replaced', 233],
  ['adamw', "the tensor before the block's", 240],
  ['adamw', 'elements beyond the end of a tensor', 241],
  ['adamw_gradient_squares', 'no barrier before the sums of the warps are read', 10],
];

(hasCompiler ? describe : describe.skip)('emulated training kernels', () => {
  let program: string;
  beforeAll(() => {
    program = buildEmulated(
      ...['norm_backward.cpp', 'head_norm.cpp', 'swiglu_backward.cpp', 'log_probs.cpp', 'adamw.cpp'],
    );
  });
  afterAll(() => {
    if (program) rmSync(dirname(program), { recursive: true });
  });

  test.each(['norm_backward', 'head_norm', 'swiglu_backward', 'log_probs', 'adamw'])('%s', (family) => {
    expect(runEmulated(program, `${family}_`)).toEqual({
      status: 0,
      output: expect.stringMatching(/(\d+) of \1 tests passed/),
    });
  });

  test.each(PLANTED)('%s: %s (%d) is found', (tests, _bug, number) => {
    const { status, output } = runEmulated(program, tests, number);
    expect(status).toBe(1);
    expect(output).toMatch(/^FAIL|ERROR: AddressSanitizer/m);
  });
});
