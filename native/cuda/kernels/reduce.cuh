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
