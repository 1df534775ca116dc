// The arguments of the kernels, one struct by value each. Plain C++: the host fills them without
// CUDA's headers. Pointers are to device memory of the kernel's storage type unless a type is
// given.
//
// N rows (one token each), D hidden size, F intermediate size, H query heads, J key and value
// heads, K head size, P rotary positions, S pages of the cache, L positions of a page, T the most
// pages of a row. Position p of a row lies in its page p / L. Rows with one page each may have any
// L, others a multiple of kAttentionSplit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace acoer::cuda {

// Grid (N), kNormThreads. D is a multiple of 8.
struct NormArgs {
  void* x_ND;            // the residual stream; written only with a delta
  const void* delta_ND;  // added to x before the norm; null: nothing
  const void* weight_D;
  void* normed_ND;
  int32_t width;  // D
  float eps;
  float* inverseRms_N = nullptr;  // 1 / rms of each row, for the backward pass; null: not written
};

// Grid (N, swigluBlocks(F)), kSwigluThreads. F is a multiple of 8.
struct SwigluArgs {
  const void* gateUp_N2F;
  void* act_NF;
  int32_t width;  // F
};

// Grid (N, rotateBlocks(H, J)), kRotateThreads. K is 64, 96 or 128.
struct RotateArgs {
  const void* qkv_NE;   // [N, (H + 2 J) K]
  const void* qNorm_K;  // null: queries are only turned
  const void* kNorm_K;  // null: keys are only turned
  const void* cos_PK;   // rounded to the storage type
  const void* sin_PK;
  const int32_t* pages_NT;
  const int32_t* positions_N;  // a row with a negative position is left out
  void* q_NHK;                 // may be qkv_NE itself, with its row length as the stride
  void* keys_SJLK;             // of int8 in the kernels for such a cache
  void* values_SJLK;
  float* keyScales_SJL = nullptr;  // written by those: what a head of a position is multiplied by
  float* valueScales_SJL = nullptr;
  int64_t qStride;                     // elements from row to row of q
  int32_t heads, kvHeads, headDim;     // H, J, K
  int32_t pagesPerRow, pagePositions;  // T, L
  float eps;
};

// Grid (splits, J, N), kAttentionThreads, or with bundles (splits, J, B). splits covers the longest
// row that can come; a block beyond the end of its rows ends at once.
struct AttentionArgs {
  const void* q_NHK;      // rotated
  const void* keys_SJLK;  // of int8 in the kernels for such a cache
  const void* values_SJLK;
  const float* keyScales_SJL = nullptr;  // read by those
  const float* valueScales_SJL = nullptr;
  const int32_t* pages_NT;
  const int32_t* positions_N;  // row n sees keys 0..positions[n]; none with a negative position
  // The rows [bundles[b], bundles[b + 1]) of a block, which have the same pages and positions that
  // follow each other. Null: block n has row n.
  const int32_t* bundles_B1 = nullptr;
  float* sums_NJsGK;   // scratch: weighted values of each split, G = group
  float* stats_NJsG2;  // scratch: largest score and sum of weights of each split
  void* out_NHK;
  int64_t qStride;                     // elements from row to row of q
  int32_t kvHeads, group, splits;      // J, H / J
  int32_t pagesPerRow, pagePositions;  // T, L
  float scale;
};

// Grid (H, N), kCombineThreads: adds up the splits of rows longer than one.
struct CombineArgs {
  const float* sums_NJsGK;
  const float* stats_NJsG2;
  const int32_t* positions_N;
  void* out_NHK;
  int32_t kvHeads, group, headDim, splits;
};

constexpr int kNormThreads = 256;
constexpr int kSwigluThreads = 256;
constexpr int swigluBlocks(int64_t width) {
  return static_cast<int>((width + kSwigluThreads * 8 - 1) / (kSwigluThreads * 8));
}

constexpr int kRotateThreads = 128;
constexpr int rotateBlocks(int64_t heads, int64_t kvHeads) {
  return static_cast<int>((heads + 2 * kvHeads + 3) / 4);  // one warp a head
}
constexpr int kAttentionThreads = 128;
constexpr int kCombineThreads = 128;
// Keys of one block. Fixed, so that the order of a row's sums depends on its own length alone.
constexpr int kAttentionSplit = 256;
constexpr int attentionSplits(int64_t length) {
  return static_cast<int>((length + kAttentionSplit - 1) / kAttentionSplit);
}
// Attention is compiled for this many queries of a block: a row's heads of one KV head, or those of
// the rows of a bundle. A number that lies between takes the next.
constexpr int kAttentionGroups[] = {1, 2, 4, 6, 8};
constexpr int kMostQueries = 8;
// Rows that a bundle may have where a KV head has `group` query heads.
constexpr int rowsPerBundle(int64_t group) {
  return group < kMostQueries ? static_cast<int>(kMostQueries / group) : 1;
}
constexpr size_t kAttentionGroupCount = sizeof(kAttentionGroups) / sizeof(kAttentionGroups[0]);
// The place in that list of the one for `group` query heads, at most 8.
constexpr size_t attentionGroupIndex(int64_t group) {
  size_t index = 0;
  while (kAttentionGroups[index] < group) ++index;
  return index;
}

}  // namespace acoer::cuda
