/**
 * The CUDA kernels of the sampler, of what follows it in a step, and of the dropout mask on a CPU, thread by thread,
 * against the CPU sampler's semantics in float64 and the CPU's masks (`native/test/emu`); nothing of speed or of a real card. With a bug planted in a kernel
 * its tests must fail.
 */
import { describeEmulated, type PlantedBug } from '../helpers/emulator';

const PLANTED: PlantedBug[] = [
  ['sampler_options', 'no barrier before the maxima of the warps are read', 100],
  ['sampler_options', 'no barrier before the sums of the warps are read', 101],
  ['sampler_options', 'no barrier before the maxima are written again', 112],
  ['sampler_options', 'logits beyond the vocabulary', 102],
  ['sampler_options', 'no carry into the upper half of a sum', 103],
  ['sampler_options', 'no barrier behind the cleared bins', 104],
  ['sampler_options', 'no barrier behind the filled bins', 105],
  ['sampler_options', 'no barrier behind the chosen bin', 106],
  ['sampler_ties', 'top-p keeps all ties', 107],
  ['sampler_ties', 'the highest id among equals', 108],
  ['sampler_options', 'no barrier behind the chosen block', 109],
  ['sampler_options', 'no barrier behind the sums of what is kept', 110],
  ['sampler_options', 'entropies of blocks in units of their own', 111],
  ['dropout', 'tokens beyond the last', 150],
  ['dropout', 'a counter that runs over tokens', 151],
  ['dropout', 'channels beyond the last', 152],
  ['advance', 'no barrier before the place changes', 160],
  ['advance', 'a history without an end', 161],
  ['advance', 'rows that have ended', 162],
  ['advance', 'a token too many', 163],
];

describeEmulated(
  'emulated sampler, advance and dropout',
  ['sampler.cpp', 'dropout.cpp', 'advance.cpp'],
  ['sampler', 'dropout', 'advance'],
  PLANTED,
);
