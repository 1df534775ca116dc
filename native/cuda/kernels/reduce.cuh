// Sums and maxima over the lanes of a warp and the threads of a block, in an order that is always
// the same.
#pragma once

#include "port.cuh"

namespace acoer::cuda {

constexpr int kWarp = 32;

// All lanes of the warp take part and get the result; so too below.
template <class T>
__device__ __forceinline__ T warpSum(T x) {
#pragma unroll
  for (int flip = kWarp / 2; flip > 0; flip /= 2) x += __shfl_xor_sync(~0u, x, flip);
  return x;
}

__device__ __forceinline__ float warpMax(float x) {
#pragma unroll
  for (int flip = kWarp / 2; flip > 0; flip /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, flip));
  return x;
}

__device__ __forceinline__ uint32_t warpLargest(uint32_t x) {
#pragma unroll
  for (int flip = kWarp / 2; flip > 0; flip /= 2) {
    const uint32_t other = __shfl_xor_sync(~0u, x, flip);
    x = other > x ? other : x;
  }
  return x;
}

// A lane goes on with kHalf of the numbers and gives the others to the lane that keeps those, until
// it has one. Recursive, so that the numbers stay in registers whatever a compiler unrolls.
template <int kHalf, int kLanes, int kCount>
__device__ __forceinline__ void shareSums(float (&x)[kCount]) {
  const bool upper = (threadIdx.x & (kHalf * kLanes)) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float given = upper ? x[i] : x[i + kHalf];
    x[i] = (upper ? x[i + kHalf] : x[i]) + __shfl_xor_sync(~0u, given, kHalf * kLanes);
  }
  if constexpr (kHalf > 1) shareSums<kHalf / 2, kLanes>(x);
}

// The sums of each of kCount numbers, a power of two from 2 to 32, in few shuffles: lane l gets
// that of number l / (32 / kCount).
template <int kCount>
__device__ __forceinline__ float warpSums(float (&x)[kCount]) {
  constexpr int kLanes = kWarp / kCount;  // that end up with the same sum
  shareSums<kCount / 2, kLanes>(x);
#pragma unroll
  for (int flip = kLanes / 2; flip > 0; flip /= 2) x[0] += __shfl_xor_sync(~0u, x[0], flip);
  return x[0];
}

// Once in a kernel: there is no barrier behind the last read of the shared array.
template <int kThreads>
__device__ __forceinline__ float blockSum(float x) {
  constexpr int kWarps = kThreads / kWarp;
  ACOER_SHARED_ARRAY(float, warpSums, kWarps);
  x = warpSum(x);
  if (threadIdx.x % kWarp == 0) warpSums[threadIdx.x / kWarp] = x;
  if (!ACOER_PLANTED(10)) __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += warpSums[i];
  return sum;
}

}  // namespace acoer::cuda
