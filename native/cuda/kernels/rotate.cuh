// What lies between the qkv projection and attention: norm, if any, and rotary embedding of every
// query and key head, keys and values into the cache.
#pragma once

#include "args.h"
#include "head_part.cuh"

namespace acoer::cuda {

// Codes of a key or value head and their scale, largest |x| / 127: a code is x / scale to the
// nearest, ties to even. Of a head with numbers that are not finite, so is the scale. `to` is where
// the lane's first code goes.
__device__ __forceinline__ void storeCodes(const HeadPart& x, int8_t* to, float* scale, int half,
                                           bool active) {
  // The bits of |x| are in the order of |x|, with NaN above all.
  const float elements[4] = {x.low.x, x.low.y, x.high.x, x.high.y};
  uint32_t top = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t bits = __float_as_uint(elements[i]) & 0x7FFFFFFFu;
    top = bits > top ? bits : top;
  }
  if (!ACOER_PLANTED(35)) top = warpLargest(top);
  const float exact = __uint_as_float(top) / 127;
  const float unit = exact < kLeastScale ? kLeastScale : exact;
  if (threadIdx.x % kWarp == 0) *scale = unit;
  if (!active && !ACOER_PLANTED(37)) return;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t pair = codeOf(elements[2 * i], unit) | codeOf(elements[2 * i + 1], unit) << 8;
    *reinterpret_cast<uint16_t*>(to + i * half) = static_cast<uint16_t>(pair);
  }
}

// One warp a head. C: what the cache holds.
template <class T, class C>
__device__ __forceinline__ void rotate(const RotateArgs& a) {
  const int n = blockIdx.x, lane = threadIdx.x % kWarp;
  const int head = blockIdx.y * (kRotateThreads / kWarp) + threadIdx.x / kWarp;
  const int allHeads = a.heads + 2 * a.kvHeads, position = a.positions_N[n];
  if ((!ACOER_PLANTED(30) && head >= allHeads) || position < 0) return;

  const bool isQuery = head < a.heads, isKey = !isQuery && head < a.heads + a.kvHeads;
  const int K = a.headDim, half = K / 2, i = 2 * lane;
  const bool active = i < half;  // not every lane has elements of a head of 64 or 96
  const T* from = static_cast<const T*>(a.qkv_NE) + (int64_t{n} * allHeads + head) * K + i;
  HeadPart part{};
  if (active) part = loadPart(from, half);
  if (isQuery || isKey) {
    const T* weight = static_cast<const T*>(isQuery ? a.qNorm_K : a.kNorm_K);
    if (weight != nullptr) {
      float squares = squaresOf(part);
      squares = ACOER_PLANTED(32) ? squares + __shfl_xor_sync(~0u, squares, 1) : warpSum(squares);
      if (active) part = weighted(part, rsqrtf(squares / K + a.eps), weight + i, half);
    }
    if (active) {
      const int64_t angle = int64_t{position} * K + i;
      part = turned(part, static_cast<const T*>(a.cos_PK) + angle,
                    static_cast<const T*>(a.sin_PK) + angle, half);
    }
  }
  if (isQuery) {
    T* to = static_cast<T*>(a.q_NHK) + n * a.qStride + head * K + i;
    if (active || ACOER_PLANTED(33)) storePart(to, half, part);
    return;
  }
  const int j = (head - a.heads) % a.kvHeads;
  const int place = ACOER_PLANTED(34) ? 0 : position / a.pagePositions;
  const int64_t page = ACOER_PLANTED(31) ? n : a.pages_NT[n * a.pagesPerRow + place];
  const int64_t at = (page * a.kvHeads + j) * a.pagePositions + position % a.pagePositions;
  C* to = static_cast<C*>(isKey ? a.keys_SJLK : a.values_SJLK) + at * K + i;
  if constexpr (sizeof(C) == 1) {
    float* scales = isKey || ACOER_PLANTED(36) ? a.keyScales_SJL : a.valueScales_SJL;
    storeCodes(roundedTo<T>(part), to, scales + at, half, active);
  } else if (active || ACOER_PLANTED(33)) {
    storePart(to, half, part);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL(rotate_bf16, kRotateThreads, RotateArgs, rotate<acoer::cuda::Bf16, acoer::cuda::Bf16>)
ACOER_KERNEL(rotate_fp32, kRotateThreads, RotateArgs, rotate<float, float>)
ACOER_KERNEL(rotate_bf16_int8, kRotateThreads, RotateArgs, rotate<acoer::cuda::Bf16, int8_t>)
