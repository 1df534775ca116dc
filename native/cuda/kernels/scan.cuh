// Integer sums, maxima and prefix sums over a warp and a block. Unlike sums of floats they are the
// same in any order.
#pragma once

#include "reduce.cuh"

namespace acoer::cuda {

// All lanes of the warp take part and get the result.
template <class T>
__device__ __forceinline__ T warpLargest(T x) {
#pragma unroll
  for (int flip = kWarp / 2; flip > 0; flip /= 2) {
    const T other = __shfl_xor_sync(~0u, x, flip);
    x = other > x ? other : x;
  }
  return x;
}

// The sum over this lane and those before it.
__device__ __forceinline__ uint64_t warpScan(uint64_t x) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const uint64_t before = __shfl_up_sync(~0u, x, distance);
    if (lane >= distance) x += before;
  }
  return x;
}

template <int kThreads, class T>
__device__ __forceinline__ T blockLargest(T x) {
  constexpr int kWarps = kThreads / kWarp;
  ACOER_SHARED_ARRAY(T, warpLargests, kWarps);
  x = warpLargest(x);
  if (threadIdx.x % kWarp == 0) warpLargests[threadIdx.x / kWarp] = x;
  if (!ACOER_PLANTED(100)) __syncthreads();
  for (int i = 0; i < kWarps; ++i) x = warpLargests[i] > x ? warpLargests[i] : x;
  if (!ACOER_PLANTED(112)) __syncthreads();  // the array is free for the next call
  return x;
}

// What blockScan returns.
struct Scan {
  uint64_t upTo;   // the sum over this thread and those before it
  uint64_t total;  // over the block
};

// Between two calls there must be a barrier: there is none behind the last read.
template <int kThreads>
__device__ __forceinline__ Scan blockScan(uint64_t x) {
  constexpr int kWarps = kThreads / kWarp;
  ACOER_SHARED_ARRAY(uint64_t, warpTotals, kWarps);
  const int warp = threadIdx.x / kWarp;
  Scan scan{warpScan(x), 0};
  if (threadIdx.x % kWarp == kWarp - 1) warpTotals[warp] = scan.upTo;
  if (!ACOER_PLANTED(101)) __syncthreads();
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) scan.upTo += warpTotals[i];
    scan.total += warpTotals[i];
  }
  return scan;
}

}  // namespace acoer::cuda
