/**
 * The CUDA kernels of training on a CPU, thread by thread, against float64 (`native/test/emu`); nothing of speed or of a
 * real card. With a bug planted in a kernel its tests must fail.
 */
import { describeEmulated, type PlantedBug } from '../helpers/emulator';

const PLANTED: PlantedBug[] = [
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

describeEmulated(
  'emulated training kernels',
  ['norm_backward.cpp', 'head_norm.cpp', 'swiglu_backward.cpp', 'log_probs.cpp', 'adamw.cpp'],
  ['norm_backward', 'head_norm', 'swiglu_backward', 'log_probs', 'adamw'],
  PLANTED,
);
