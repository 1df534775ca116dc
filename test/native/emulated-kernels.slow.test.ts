/**
 * The CUDA kernels of a decoder layer on a CPU, thread by thread, against float64 (`native/test/emu`). It shows results,
 * barriers, bounds and alignment; nothing of speed or of a real card. The test of the test: with a bug planted in a
 * kernel its tests must fail.
 */
import { describeEmulated, type PlantedBug } from '../helpers/emulator';

const PLANTED: PlantedBug[] = [
  ['norm', 'no barrier before the sums of the warps are read', 10],
  ['norm', 'elements beyond the end of a row', 11],
  ['norm', 'rows too far apart', 12],
  ['swiglu', 'elements beyond the end of a row', 20],
  ['swiglu', 'the upper half begins too early', 21],
  ['rotate', 'heads beyond the last one', 30],
  ['rotate', 'the row in place of its page', 31],
  ['rotate', 'a sum over two lanes only', 32],
  ['rotate', 'lanes without elements write', 33],
  ['rotate', 'the first page for all positions', 34],
  ['rotate_int8', "a scale of the lane's own elements", 35],
  ['rotate_int8', "the values' scales among the keys'", 36],
  ['rotate_int8', 'lanes without elements write codes', 37],
  ['attention', 'no barrier behind the scores', 40],
  ['attention', 'no barrier behind the exponentials', 41],
  ['attention', 'no barrier behind the sums', 42],
  ['attention', 'weights beyond the last key', 43],
  ['attention', 'pages as long as the row', 44],
  ['attention', 'keys beyond the last one', 45],
  ['attention', 'splits that the row does not have', 46],
  ['attention', 'splits of one query head only', 47],
  ['attention', 'the first page for all positions', 48],
  ['attention_lengths_int8', "the keys' scales for the values", 39],
  ['attention_lengths_int8', "the first key's scale for its neighbours", 49],
  ['lora_ranks', 'rows beyond the last one are read', 50],
  ['lora_ranks', 'ranks beyond the last one are read', 51],
  ['lora_ranks', 'no barrier before the sums of the warps are read', 52],
  ['lora_ranks', 'ranks beyond the last one are written', 53],
  ['lora_add', 'columns of no adapter get those of another', 54],
  ['lora_add', "the first adapter's ranks for all", 55],
  ['lora_add', 'rows beyond the last one', 56],
  ['lora_add', 'columns beyond the last one', 57],
  ['lora_swiglu', 'columns beyond the last one', 58],
  ['lora_swiglu', 'the upper half begins too early', 59],
];

describeEmulated(
  'emulated kernels',
  ['emulator.cpp', 'norm.cpp', 'swiglu.cpp', 'rotate.cpp', 'attention.cpp', 'lora.cpp'],
  ['emulator', 'norm', 'swiglu', 'rotate', 'attention', 'lora'],
  PLANTED,
);
