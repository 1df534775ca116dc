// The LoRA dropout mask, bit for bit that of dropoutMask in native/core/ops/dropout.cpp.
#pragma once

#include "dropout_args.h"
#include "philox.cuh"
#include "storage.cuh"

namespace acoer::cuda {

// One thread: kDropoutChannels channels of one token, 16 bits a channel.
template <class T>
__device__ __forceinline__ void dropoutMask(const DropoutArgs& a) {
  const int blocksOfToken = (a.width + kDropoutChannels - 1) / kDropoutChannels;
  const int64_t item = int64_t{blockIdx.x} * kDropoutThreads + threadIdx.x;
  const int64_t token = item / blocksOfToken;
  if (!ACOER_PLANTED(150) && token >= a.tokens) return;
  const int block = static_cast<int>(item - token * blocksOfToken);
  const uint64_t counter = static_cast<uint64_t>(a.positions_T[token]) << 32 |
                           static_cast<uint64_t>(ACOER_PLANTED(151) ? item : block);
  const PhiloxWords words = philox(a.seed ^ a.sequences_T[token], counter, a.place);
  const int first = block * kDropoutChannels;
  T* out = static_cast<T*>(a.mask_TW) + token * a.width + first;
  float mask[kDropoutChannels];
#pragma unroll
  for (int c = 0; c < kDropoutChannels; ++c) {
    const uint32_t draw = words.word[c / 2] >> (c % 2 * 16) & 0xFFFF;
    mask[c] = draw < a.threshold ? 0 : a.keep;
  }
  if (a.width % kDropoutChannels == 0) {
    storePack(out, mask);
    return;
  }
#pragma unroll
  for (int c = 0; c < kDropoutChannels; ++c) {
    if (ACOER_PLANTED(152) || first + c < a.width) out[c] = fromFloat<T>(mask[c]);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(dropout, kDropoutThreads, DropoutArgs, dropoutMask)
