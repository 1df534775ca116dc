// Weight matrices in nf4 or int8: made plain for the library's products, and products of few rows
// straight from the codes, whose bytes are most of what a decode step reads.
//
// Both compute with the same weights: dequantised in fp32 and rounded to the storage type.
#pragma once

#include "quantised_args.h"
#include "reduce.cuh"
#include "storage.cuh"

namespace acoer::cuda {

// The tables of nf4 in shared memory. The 16 values of codes lie in 16 banks, so the lanes of a
// warp never wait for each other there.
template <int kThreads>
__device__ __forceinline__ const float* sharedTables(const Nf4Matrix& w) {
  constexpr int kCount = kNf4Values + kNf4ScaleValues;
  ACOER_SHARED_ARRAY(float, tables, kCount);
  for (int i = threadIdx.x; i < kCount; i += kThreads) tables[i] = w.tables[i];
  if (!ACOER_PLANTED(60)) __syncthreads();
  return tables;
}
template <int kThreads>
__device__ __forceinline__ const float* sharedTables(const Int8Matrix&) {
  return nullptr;
}

// One row of a matrix. Packs are kPack weights that are neighbours, with what scales them: loads of
// several can be under way before one is used.
template <class Quantised>
struct QuantisedRow;

template <>
struct QuantisedRow<Nf4Matrix> {
  const Nf4Matrix& w;
  int row;
  int firstBlock, firstGroup;  // of the row in its part, and of the part
  float offset;

  __device__ __forceinline__ QuantisedRow(const Nf4Matrix& w, int row) : w(w), row(row) {
    Nf4Part part = w.parts[0];
#pragma unroll
    for (int p = 1; p < kMostNf4Parts; ++p) {
      if (row >= w.parts[p].firstRow && !ACOER_PLANTED(61)) part = w.parts[p];
    }
    firstBlock = (ACOER_PLANTED(62) ? row : row - part.firstRow) * (w.inputs / kNf4Block);
    firstGroup = part.firstGroup;
    offset = part.offset;
  }

  struct Pack {
    uint32_t codes;
    uint8_t scale;
    float group;
  };
  __device__ __forceinline__ Pack load(int i) const {
    const int64_t begin = int64_t{row} * w.inputs + i;
    const auto blockOfPart = static_cast<uint32_t>(firstBlock + i / kNf4Block);
    return {*reinterpret_cast<const uint32_t*>(w.codes + begin / 2), w.scales[begin / kNf4Block],
            w.groups[firstGroup + blockOfPart / kNf4Group]};
  }
  template <class T>
  __device__ __forceinline__ void dequantise(const Pack& pack, const float* tables,
                                             float (&to)[kPack]) const {
    // The product is rounded before the offset is added, as it would not be in one fused operation.
    const float scale = __fmul_rn(tables[kNf4Values + pack.scale], pack.group) + offset;
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const int upper = ACOER_PLANTED(63) ? 1 : 0;  // which of two has the upper bits
      const uint32_t code = pack.codes >> (8 * (e / 2) + (e % 2 == upper ? 4 : 0)) & 15;
      to[e] = ACOER_PLANTED(64) ? tables[code] * scale : rounded<T>(tables[code] * scale);
    }
  }
};

template <>
struct QuantisedRow<Int8Matrix> {
  const Int8Matrix& w;
  int row;
  float magnitude;

  __device__ __forceinline__ QuantisedRow(const Int8Matrix& w, int row)
      : w(w), row(row), magnitude(w.magnitudes[row]) {}

  struct Pack {
    uint2 codes;
  };
  __device__ __forceinline__ Pack load(int i) const {
    return {*reinterpret_cast<const uint2*>(w.codes + int64_t{row} * w.inputs + i)};
  }
  template <class T>
  __device__ __forceinline__ void dequantise(const Pack& pack, const float*,
                                             float (&to)[kPack]) const {
    const uint32_t words[2] = {pack.codes.x, pack.codes.y};
#pragma unroll
    for (int e = 0; e < kPack; ++e) {
      const uint32_t byte = words[e / 4] >> 8 * (e % 4);
      const int code = ACOER_PLANTED(65) ? static_cast<int>(byte & 255) : static_cast<int8_t>(byte);
      to[e] = rounded<T>(static_cast<float>(code) * magnitude * kInt8Step);
    }
  }
};

// One block: kDequantiseRows rows, a pack of each for every thread.
template <class T, class Quantised>
__device__ __forceinline__ void dequantise(const DequantiseArgs<Quantised>& a) {
  const float* tables = sharedTables<kDequantiseThreads>(a.w);
  const int i = (blockIdx.y * kDequantiseThreads + threadIdx.x) * kPack;
  if (!ACOER_PLANTED(66) && i >= a.w.inputs) return;
  const int first = blockIdx.x * kDequantiseRows;
#pragma unroll 2
  for (int r = 0; r < kDequantiseRows; ++r) {
    const int row = first + r;
    if (!ACOER_PLANTED(67) && row >= a.w.outputs) return;
    const QuantisedRow<Quantised> weights(a.w, row);
    float values[kPack];
    weights.template dequantise<T>(weights.load(i), tables, values);
    storePack(static_cast<T*>(a.w_OI) + int64_t{row} * a.w.inputs + i, values);
  }
}

// Where a row of y starts before the product is added.
template <class T, class Args>
__device__ __forceinline__ float startOf(const Args& a, const T* y, int output) {
  if (a.add) return toFloat(*y);
  return a.bias_O ? toFloat(static_cast<const T*>(a.bias_O)[output]) : 0;
}

// One warp: kQuantisedOutputs outputs of kRows rows, of which `rows` exist. The inputs are divided
// among its lanes, a pack at a time, so the order of a sum depends on I alone. Rows beyond the last
// are zeros, outputs beyond the last copies of it; their results are dropped.
template <class T, int kRows, class Quantised>
__device__ __forceinline__ void quantisedTile(const QuantisedProductArgs<Quantised>& a,
                                              const float* tables, int firstRow, int firstOutput) {
  using Row = QuantisedRow<Quantised>;
  constexpr int kOutputs = kQuantisedOutputs;
  const int lane = threadIdx.x % kWarp, last = a.w.outputs - 1;
  const auto rowOf = [&](int o) {
    return Row(a.w, ACOER_PLANTED(68) ? firstOutput + o : min(firstOutput + o, last));
  };
  const Row weights[kOutputs] = {rowOf(0), rowOf(1), rowOf(2), rowOf(3)};
  static_assert(kOutputs == 4);
  const T* x = static_cast<const T*>(a.x_NI) + int64_t{firstRow} * a.xStride;
  const int rows = a.rows - firstRow;

  constexpr int kSums = kRows * kOutputs < kWarp ? kRows * kOutputs : kWarp;
  constexpr int kGroups = kRows * kOutputs / kSums;
  float sums[kGroups][kSums] = {};
  for (int i = lane * kPack; i < a.w.inputs; i += kWarp * kPack) {
    typename Row::Pack packs[kOutputs];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) packs[o] = weights[o].load(i);
    float weight[kOutputs][kPack];
#pragma unroll
    for (int o = 0; o < kOutputs; ++o) {
      weights[o].template dequantise<T>(packs[o], tables, weight[o]);
    }
    const T* row = x + i;
#pragma unroll
    for (int n = 0; n < kRows; ++n) {
      float value[kPack] = {};
      if (n < rows || ACOER_PLANTED(69)) loadPack(row, value);
      row += a.xStride;
#pragma unroll
      for (int o = 0; o < kOutputs; ++o) {
        float& sum = sums[(n * kOutputs + o) / kSums][(n * kOutputs + o) % kSums];
#pragma unroll
        for (int e = 0; e < kPack; ++e) sum += value[e] * weight[o][e];
      }
    }
  }

  // A lane keeps one sum of every 32, or of all if there are fewer.
  constexpr int kLanes = kWarp / kSums;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const float sum = warpSums(sums[g]);
    const int own = g * kSums + lane / kLanes;
    const int row = firstRow + own / kOutputs, output = firstOutput + own % kOutputs;
    const bool isRow = row < a.rows || ACOER_PLANTED(70);
    const bool isOutput = output <= last || ACOER_PLANTED(71);
    if (lane % kLanes == 0 && isRow && isOutput) {
      T* y = static_cast<T*>(a.y_NO) + int64_t{row} * a.yStride + output;
      *y = fromFloat<T>(startOf(a, y, output) + (ACOER_PLANTED(72) ? 1 : a.scale) * sum);
    }
  }
}

// Which tiles there are, in rows: machine code that has to be small does with fewer. The sums are
// the same in all.
#ifdef ACOER_FEWER_KERNELS
constexpr bool kFewerTiles = true;
#else
constexpr bool kFewerTiles = false;
#endif
constexpr int kSmallTile = kQuantisedRows / 4, kMiddleTile = kQuantisedRows / 2;
// fp32 in tiles of 16 would need more registers than there are.
template <class T>
constexpr int kLargeTile = sizeof(T) == sizeof(Bf16) ? kQuantisedRows
                           : kFewerTiles             ? kSmallTile
                                                     : kMiddleTile;

// The block's rows in tiles.
template <int kTile, class T, class Quantised>
__device__ __forceinline__ void quantisedTiles(const QuantisedProductArgs<Quantised>& a,
                                               const float* tables, int firstRow, int firstOutput) {
  const int end = min(firstRow + kQuantisedRows, a.rows);
  for (int row = firstRow; row < end; row += kTile) {
    quantisedTile<T, kTile>(a, tables, row, firstOutput);
  }
}

// Few rows take less work for the rows that a tile does not have.
template <class T, class Quantised>
__device__ __forceinline__ void quantisedProduct(const QuantisedProductArgs<Quantised>& a) {
  constexpr int kLarge = kLargeTile<T>;
  const float* tables = sharedTables<kQuantisedThreads>(a.w);
  const int firstRow = blockIdx.x * kQuantisedRows, rows = a.rows - firstRow;
  const int warp = blockIdx.y * (kQuantisedThreads / kWarp) + threadIdx.x / kWarp;
  const int firstOutput = warp * kQuantisedOutputs;
  if (!ACOER_PLANTED(71) && firstOutput >= a.w.outputs) return;
  if (rows <= kSmallTile || kLarge == kSmallTile) {
    quantisedTiles<kSmallTile, T>(a, tables, firstRow, firstOutput);
  } else if (rows <= kMiddleTile && kLarge > kMiddleTile && !kFewerTiles) {
    quantisedTiles<kMiddleTile, T>(a, tables, firstRow, firstOutput);
  } else if constexpr (kLarge > kSmallTile) {
    quantisedTiles<kLarge, T>(a, tables, firstRow, firstOutput);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(dequantise_nf4, kDequantiseThreads, DequantiseNf4Args, dequantise)
ACOER_KERNEL_OF_TYPES(dequantise_int8, kDequantiseThreads, DequantiseInt8Args, dequantise)
// Twelve warps of a processor have 6 KB of codes under way, as many as an A6000's memory delivers
// in the time that it takes to answer.
ACOER_RESIDENT_KERNEL_OF_TYPES(product_nf4, kQuantisedThreads, 3, Nf4ProductArgs, quantisedProduct)
ACOER_RESIDENT_KERNEL_OF_TYPES(product_int8, kQuantisedThreads, 3, Int8ProductArgs,
                               quantisedProduct)
