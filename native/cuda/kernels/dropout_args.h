// What the dropout mask's kernel takes. Plain C++: the host fills it without CUDA's headers.
#pragma once

#include <cstdint>

namespace acoer::cuda {

constexpr int kDropoutThreads = 256;
constexpr int kDropoutChannels = 8;  // of one Philox block and so of one thread

// Grid (dropoutBlocks(T, W)), kDropoutThreads. T tokens, W channels of the linear's input.
struct DropoutArgs {
  const uint64_t* sequences_T;  // DropoutPlan::sequenceOfToken
  const int64_t* positions_T;   // DropoutPlan::positionOfToken
  void* mask_TW;
  uint64_t seed;
  uint64_t place;  // layer * kNumTargets + target
  int64_t tokens;
  int32_t width;
  uint32_t threshold;  // the probability in units of 1 / 65536
  float keep;          // 65536 / (65536 - threshold)
};

constexpr int64_t dropoutBlocks(int64_t tokens, int64_t width) {
  const int64_t items = tokens * ((width + kDropoutChannels - 1) / kDropoutChannels);
  return (items + kDropoutThreads - 1) / kDropoutThreads;
}

}  // namespace acoer::cuda
