// LoRA adapters in a decode step: both products of all adapters of a fused linear, for few rows.
// What is read is little and stays in the caches: the kernels are to cost no more than their
// launches.
#pragma once

#include "lora_args.h"
#include "reduce.cuh"
#include "silu.cuh"
#include "storage.cuh"

namespace acoer::cuda {

// One block: kLoraTile rows and ranks, the inputs divided among its threads. Beyond the last row or
// rank are copies of it whose results are dropped. The order of a sum depends on I alone.
template <class T>
__device__ __forceinline__ void loraRanks(const LoraRanksArgs& a) {
  constexpr int kTile = kLoraTile, kSums = kTile * kTile, kWarps = kLoraRanksThreads / kWarp;
  ACOER_SHARED_ARRAY(float, sums, kWarps* kSums);  // [kWarps][row][rank]
  const int firstRank = blockIdx.x * kTile, firstRow = blockIdx.y * kTile;
  const T* x = static_cast<const T*>(a.x_NI);
  const T* weights = static_cast<const T*>(a.a_RI);

  float sum[kSums] = {};
  for (int i = threadIdx.x * kPack; i < a.inputs; i += kLoraRanksThreads * kPack) {
    Pack<T> rows[kTile], ranks[kTile];
#pragma unroll
    for (int t = 0; t < kTile; ++t) {
      const int row = ACOER_PLANTED(50) ? firstRow + t : min(firstRow + t, a.rows - 1);
      const int rank = ACOER_PLANTED(51) ? firstRank + t : min(firstRank + t, a.ranks - 1);
      rows[t] = Pack<T>::load(x + int64_t{row} * a.inputs + i);
      ranks[t] = Pack<T>::load(weights + int64_t{rank} * a.inputs + i);
    }
    float weight[kTile][kPack];
#pragma unroll
    for (int r = 0; r < kTile; ++r) ranks[r].unpack(weight[r]);
#pragma unroll
    for (int n = 0; n < kTile; ++n) {
      float value[kPack];
      rows[n].unpack(value);
#pragma unroll
      for (int r = 0; r < kTile; ++r) {
#pragma unroll
        for (int e = 0; e < kPack; ++e) sum[n * kTile + r] += value[e] * weight[r][e];
      }
    }
  }

  constexpr int kLanes = kWarp / kSums;
  const float ofWarp = warpSums(sum);
  if (threadIdx.x % kLanes == 0) sums[threadIdx.x / kLanes] = ofWarp;
  if (!ACOER_PLANTED(52)) __syncthreads();
  const int row = firstRow + threadIdx.x / kTile, rank = firstRank + threadIdx.x % kTile;
  if (threadIdx.x >= kSums || row >= a.rows) return;
  if (!ACOER_PLANTED(53) && rank >= a.ranks) return;
  float total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += sums[w * kSums + threadIdx.x];
  static_cast<T*>(a.ranks_NR)[int64_t{row} * a.ranks + rank] = fromFloat<T>(total);
}

// Row n of y at `column` and its neighbours, rounded to T after the addition if an adapter has
// them.
template <class T>
__device__ __forceinline__ void adapted(const LoraAddArgs& a, int n, int column,
                                        float (&value)[kPack]) {
  loadPack(static_cast<const T*>(a.y_NO) + int64_t{n} * a.outputs + column, value);
  LoraAdapter own{};
#pragma unroll
  for (int i = 0; i < kLoraMostAdapters; ++i) {
    const LoraAdapter& adapter = a.adapters[i];
    const int end = adapter.firstColumn + adapter.columns;
    if (column >= adapter.firstColumn && (column < end || ACOER_PLANTED(54))) own = adapter;
  }
  const int first = ACOER_PLANTED(55) ? 0 : own.firstRank;
  const T* ranks = static_cast<const T*>(a.ranks_NR) + int64_t{n} * a.ranks + first;
  const T* b = static_cast<const T*>(a.bT_RO) + int64_t{own.firstRank} * a.outputs + column;
  float sum[kPack] = {};
#pragma unroll 4
  for (int r = 0; r < own.ranks; ++r) {
    float weight[kPack];
    loadPack(b + int64_t{r} * a.outputs, weight);
    const float rank = toFloat(ranks[r]);
#pragma unroll
    for (int e = 0; e < kPack; ++e) sum[e] += rank * weight[e];
  }
#pragma unroll
  for (int e = 0; e < kPack; ++e) value[e] = rounded<T>(value[e] + sum[e]);
}

// The row, and the first of the columns, of this thread.
__device__ __forceinline__ int loraRow() {
  return blockIdx.y * kLoraAddRows + threadIdx.x / kLoraAddPacks;
}
__device__ __forceinline__ int loraColumn() {
  return (blockIdx.x * kLoraAddPacks + threadIdx.x % kLoraAddPacks) * kPack;
}

template <class T>
__device__ __forceinline__ void loraAdd(const LoraAddArgs& a) {
  const int n = loraRow(), column = loraColumn();
  if ((!ACOER_PLANTED(56) && n >= a.rows) || (!ACOER_PLANTED(57) && column >= a.outputs)) return;
  float value[kPack];
  adapted<T>(a, n, column, value);
  storePack(static_cast<T*>(a.y_NO) + int64_t{n} * a.outputs + column, value);
}

template <class T>
__device__ __forceinline__ void loraSwiglu(const LoraSwigluArgs& a) {
  const int n = loraRow(), f = loraColumn(), width = a.gateUp.outputs / 2;
  if (n >= a.gateUp.rows || (!ACOER_PLANTED(58) && f >= width)) return;
  float gate[kPack], up[kPack];
  adapted<T>(a.gateUp, n, f, gate);
  adapted<T>(a.gateUp, n, (ACOER_PLANTED(59) ? width - kPack : width) + f, up);
  activate<T>(gate, up);
  storePack(static_cast<T*>(a.act_NF) + int64_t{n} * width + f, up);
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(lora_ranks, kLoraRanksThreads, LoraRanksArgs, loraRanks)
ACOER_KERNEL_OF_TYPES(lora_add, kLoraAddThreads, LoraAddArgs, loraAdd)
ACOER_KERNEL_OF_TYPES(lora_swiglu, kLoraAddThreads, LoraSwigluArgs, loraSwiglu)
