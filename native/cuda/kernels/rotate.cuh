// What lies between the qkv projection and attention: norm and rotary embedding of every query and
// key head, keys and values into the cache.
#pragma once

#include "args.h"
#include "reduce.cuh"
#include "storage.cuh"

namespace acoer::cuda {

template <class T>
__device__ __forceinline__ float2 loadPair(const T* from) {
  return {toFloat(from[0]), toFloat(from[1])};
}
template <>
__device__ __forceinline__ float2 loadPair(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}
template <>
__device__ __forceinline__ float2 loadPair(const Bf16* from) {
  const uint32_t raw = *reinterpret_cast<const uint32_t*>(from);
  return {__uint_as_float(raw << 16), __uint_as_float(raw & 0xFFFF0000u)};
}
template <class T>
__device__ __forceinline__ void storePair(T* to, float2 pair) {
  to[0] = fromFloat<T>(pair.x);
  to[1] = fromFloat<T>(pair.y);
}

// x cos + turned sin, each product and the sum rounded to T as applyRope in ops.cpp rounds them.
template <class T>
__device__ __forceinline__ float turn(float x, float turned, float cos, float sin) {
  return rounded<T>(x * cos) + rounded<T>(turned * sin);
}

// One warp a head. Rotary embedding pairs element i of the lower half with element i of the upper:
// a lane holds two neighbours of each half.
template <class T>
__device__ __forceinline__ void rotate(const RotateArgs& a) {
  const int n = blockIdx.x, lane = threadIdx.x % kWarp;
  const int head = blockIdx.y * (kRotateThreads / kWarp) + threadIdx.x / kWarp;
  const int allHeads = a.heads + 2 * a.kvHeads, position = a.positions_N[n];
  if ((!ACOER_PLANTED(30) && head >= allHeads) || position < 0) return;

  const bool isQuery = head < a.heads, isKey = !isQuery && head < a.heads + a.kvHeads;
  const int K = a.headDim, half = K / 2, i = 2 * lane;
  const bool active = i < half;  // not every lane has elements of a head of 64 or 96
  const T* from = static_cast<const T*>(a.qkv_NE) + (int64_t{n} * allHeads + head) * K + i;
  T* to;
  if (isQuery) {
    to = static_cast<T*>(a.q_NHK) + n * a.qStride + head * K + i;
  } else {
    const int j = (head - a.heads) % a.kvHeads;
    const int64_t slot = ACOER_PLANTED(31) ? n : a.slots_N[n];
    to = static_cast<T*>(isKey ? a.keys_SJLK : a.values_SJLK) +
         ((slot * a.kvHeads + j) * a.capacity + position) * K + i;
  }

  float2 low{0, 0}, high{0, 0};
  if (active) {
    low = loadPair(from);
    high = loadPair(from + half);
  }
  if (isQuery || isKey) {
    float squares = low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y;
    squares = ACOER_PLANTED(32) ? squares + __shfl_xor_sync(~0u, squares, 1) : warpSum(squares);
    const float scale = rsqrtf(squares / K + a.eps);
    if (active) {
      const T* weight = static_cast<const T*>(isQuery ? a.qNorm_K : a.kNorm_K) + i;
      const T* cos = static_cast<const T*>(a.cos_PK) + int64_t{position} * K + i;
      const T* sin = static_cast<const T*>(a.sin_PK) + int64_t{position} * K + i;
      const float2 lowWeight = loadPair(weight), highWeight = loadPair(weight + half);
      const float2 lowCos = loadPair(cos), highCos = loadPair(cos + half);
      const float2 lowSin = loadPair(sin), highSin = loadPair(sin + half);
      low.x = rounded<T>(rounded<T>(low.x * scale) * lowWeight.x);
      low.y = rounded<T>(rounded<T>(low.y * scale) * lowWeight.y);
      high.x = rounded<T>(rounded<T>(high.x * scale) * highWeight.x);
      high.y = rounded<T>(rounded<T>(high.y * scale) * highWeight.y);
      const float2 x = low, y = high;
      low = {turn<T>(x.x, -y.x, lowCos.x, lowSin.x), turn<T>(x.y, -y.y, lowCos.y, lowSin.y)};
      high = {turn<T>(y.x, x.x, highCos.x, highSin.x), turn<T>(y.y, x.y, highCos.y, highSin.y)};
    }
  }
  if (active || ACOER_PLANTED(33)) {
    storePair(to, low);
    storePair(to + half, high);
  }
}

}  // namespace acoer::cuda

extern "C" __global__ void __launch_bounds__(acoer::cuda::kRotateThreads)
    acoer_rotate_bf16(acoer::cuda::RotateArgs a) {
  acoer::cuda::rotate<acoer::cuda::Bf16>(a);
}
extern "C" __global__ void __launch_bounds__(acoer::cuda::kRotateThreads)
    acoer_rotate_fp32(acoer::cuda::RotateArgs a) {
  acoer::cuda::rotate<float>(a);
}
