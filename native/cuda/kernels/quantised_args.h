// What the kernels of quantised weight matrices take. Plain C++: the host fills it without CUDA's
// headers. Pointers are to device memory, of the kernel's storage type unless a type is given.
//
// N rows (one token each); a matrix W [O, I]. I is a multiple of 64 (nf4) or 8 (int8).
#pragma once

#include <cstdint>

namespace acoer::cuda {

// Weights of one nf4 block, which share a scale; blocks of one group, which share the scale of
// their scales.
constexpr int kNf4Block = 64, kNf4Group = 256;
constexpr float kInt8Step = 1.0f / 127;
constexpr int kNf4Values = 16, kNf4ScaleValues = 256;

// A named tensor of a fused matrix. Its blocks are counted, row after row, from its first row on.
struct Nf4Part {
  int32_t firstRow;    // of a part that does not exist: beyond the matrix
  int32_t firstGroup;  // of the matrix's groups
  float offset;        // added to the scales of its blocks
};
constexpr int kMostNf4Parts = 3;  // q, k and v

// W = values[code] * (scaleValues[scale] * group + offset), each operation rounded to fp32, the
// result to the storage type.
struct Nf4Matrix {
  const uint8_t* codes;   // [O, I / 2]; the first of two weights has the upper four bits
  const uint8_t* scales;  // [O, I / 64]
  const float* groups;
  const float* tables;  // kNf4Values of codes, then kNf4ScaleValues of scales
  Nf4Part parts[kMostNf4Parts];
  int32_t outputs, inputs;  // O, I
};

// W = (code * magnitude of its row) * kInt8Step, each product rounded to fp32, the result to the
// storage type.
struct Int8Matrix {
  const int8_t* codes;      // [O, I]
  const float* magnitudes;  // [O]
  int32_t outputs, inputs;
};

// Grid (dequantiseRowBlocks(O), dequantiseBlocks(I)), kDequantiseThreads.
template <class Quantised>
struct DequantiseArgs {
  Quantised w;
  void* w_OI;
};
using DequantiseNf4Args = DequantiseArgs<Nf4Matrix>;
using DequantiseInt8Args = DequantiseArgs<Int8Matrix>;

constexpr int kDequantiseThreads = 256;
constexpr int kDequantiseRows = 8;  // of one block
constexpr int dequantiseRowBlocks(int64_t rows) {
  return static_cast<int>((rows + kDequantiseRows - 1) / kDequantiseRows);
}
constexpr int dequantiseBlocks(int64_t inputs) {
  constexpr int kColumns = kDequantiseThreads * 8;
  return static_cast<int>((inputs + kColumns - 1) / kColumns);
}

// y = scale x W^T + (y or the bias or nothing), rounded once. Grid (quantisedRowTiles(N),
// quantisedBlocks(O)), kQuantisedThreads. Rows of x begin at multiples of 16 bytes.
template <class Quantised>
struct QuantisedProductArgs {
  Quantised w;
  const void* x_NI;
  void* y_NO;
  const void* bias_O;        // null: none
  int32_t xStride, yStride;  // elements from row to row
  int32_t rows;              // N
  int32_t add;               // 1: to what y holds; then there is no bias
  float scale;
};
using Nf4ProductArgs = QuantisedProductArgs<Nf4Matrix>;
using Int8ProductArgs = QuantisedProductArgs<Int8Matrix>;

constexpr int kQuantisedThreads = 128;
constexpr int kQuantisedOutputs = 4;  // whose sums are those of one warp
constexpr int kQuantisedRows = 16;    // of one block, for which it reads its weights once
constexpr int quantisedRowTiles(int64_t rows) {
  return static_cast<int>((rows + kQuantisedRows - 1) / kQuantisedRows);
}
constexpr int quantisedBlocks(int64_t outputs) {
  constexpr int kOutputs = kQuantisedThreads / 32 * kQuantisedOutputs;
  return static_cast<int>((outputs + kOutputs - 1) / kOutputs);
}

}  // namespace acoer::cuda
