// What the kernels of LoRA adapters in a decode step take. Plain C++: the host fills it without
// CUDA's headers. Pointers are to device memory of the kernel's storage type.
//
// N rows (one token each); I inputs and O outputs of a linear that is fused of up to three; R ranks
// of their adapters, side by side. I, O and the columns of each adapter are multiples of 8.
#pragma once

#include <cstdint>

namespace acoer::cuda {

constexpr int kLoraTile = 4;  // rows, and ranks, whose sums are those of one block
constexpr int kLoraRanksThreads = 256;
constexpr int loraTiles(int64_t count) {
  return static_cast<int>((count + kLoraTile - 1) / kLoraTile);
}

// ranks = x A^T. Grid (loraTiles(R), loraTiles(N)), kLoraRanksThreads.
struct LoraRanksArgs {
  const void* x_NI;
  const void* a_RI;
  void* ranks_NR;
  int32_t rows, ranks, inputs;  // N, R, I
};

// Its ranks and the columns of y that they are for.
struct LoraAdapter {
  int32_t firstRank, ranks, firstColumn, columns;
};
constexpr int kLoraMostAdapters = 3;  // q, k and v

// A block's threads: packs of columns, and rows.
constexpr int kLoraAddPacks = 8, kLoraAddRows = 16;
constexpr int kLoraAddThreads = kLoraAddPacks * kLoraAddRows;
constexpr int loraAddBlocks(int64_t columns) {
  constexpr int kColumns = kLoraAddPacks * 8;
  return static_cast<int>((columns + kColumns - 1) / kColumns);
}
constexpr int loraAddRowBlocks(int64_t rows) {
  return static_cast<int>((rows + kLoraAddRows - 1) / kLoraAddRows);
}

// y += ranks B^T in each adapter's columns; the scale is in B. Grid (loraAddBlocks(O),
// loraAddRowBlocks(N)), kLoraAddThreads.
struct LoraAddArgs {
  const void* ranks_NR;
  const void* bT_RO;  // only what belongs to an adapter is read
  void* y_NO;
  LoraAdapter adapters[kLoraMostAdapters];  // without columns: none
  int32_t rows, ranks, outputs;             // N, R, O
};

// The activation of a row of gate and up, y, after that addition; y stays as it is. Grid
// (loraAddBlocks(F), loraAddRowBlocks(N)), kLoraAddThreads. F = O / 2 is a multiple of 8.
struct LoraSwigluArgs {
  LoraAddArgs gateUp;
  void* act_NF;
};

}  // namespace acoer::cuda
