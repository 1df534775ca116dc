// Norm, if any, and rotary embedding of query or key heads where they lie in the fused projection,
// and the backward of both. One warp a head.
#pragma once

#include "head_part.cuh"
#include "train_args.h"

namespace acoer::cuda {

// Where this lane's part of head `head` begins.
template <class T>
__device__ __forceinline__ T* partOf(const HeadView& view, int head, int i) {
  return static_cast<T*>(view.data) + blockIdx.x * view.tokenStride + head * view.headStride + i;
}

template <class T>
__device__ __forceinline__ void headNorm(const HeadNormArgs& a) {
  const int lane = threadIdx.x % kWarp, K = a.headDim, half = K / 2, i = 2 * lane;
  const int head = blockIdx.y * (kRotateThreads / kWarp) + threadIdx.x / kWarp;
  if (!ACOER_PLANTED(210) && head >= a.heads) return;
  const bool active = i < half;  // not every lane has elements of a head of 64 or 96
  HeadPart part{};
  if (active) part = loadPart(partOf<const T>(a.x, head, i), half);
  const T* weight = static_cast<const T*>(a.weight_K);
  float inverse = 1;
  if (weight != nullptr) {
    inverse = rsqrtf(warpSum(squaresOf(part)) / K + a.eps);
    if (lane == 0) a.inverseRms_TH[int64_t{blockIdx.x} * a.heads + head] = inverse;
  }
  if (!active && !ACOER_PLANTED(211)) return;
  if (weight != nullptr) part = weighted(part, inverse, weight + i, half);
  const int64_t angle = int64_t{blockIdx.x} * K + i;
  part = turned(part, static_cast<const T*>(a.cos_TK) + angle,
                static_cast<const T*>(a.sin_TK) + angle, half);
  storePart(partOf<T>(a.y, head, i), half, part);
}

// The gradient of a weighted, normed element (g = dy w, n = x r).
__device__ __forceinline__ float normSlope(float g, float n, float mean, float inverse) {
  return (g - n * mean) * inverse;
}

// The gradient before the turn: its transpose turns by the opposite angle, rounded to T as the
// forward's is. The pointers are to the angles of the lane's first element.
template <class T>
__device__ __forceinline__ HeadPart turnedBack(const HeadPart& d, const T* cos, const T* sin,
                                               int half) {
  const HeadPart c = loadPart(cos, half), s = loadPart(sin, half);
  const float sign = ACOER_PLANTED(213) ? 1 : -1;
  return {{rounded<T>(turn<T>(d.low.x, d.high.x, c.low.x, s.low.x)),
           rounded<T>(turn<T>(d.low.y, d.high.y, c.low.y, s.low.y))},
          {rounded<T>(turn<T>(d.high.x, sign * d.low.x, c.high.x, s.high.x)),
           rounded<T>(turn<T>(d.high.y, sign * d.low.y, c.high.y, s.high.y))}};
}

// After the turn, as in norm_backward.cuh.
template <class T>
__device__ __forceinline__ void headNormBackward(const HeadNormBackwardArgs& a) {
  const int lane = threadIdx.x % kWarp, K = a.headDim, half = K / 2, i = 2 * lane;
  const int head = blockIdx.y * (kRotateThreads / kWarp) + threadIdx.x / kWarp;
  if (!ACOER_PLANTED(212) && head >= a.heads) return;
  const bool active = i < half;
  const T* weight = static_cast<const T*>(a.weight_K);
  HeadPart g{}, n{};
  if (active) {
    const int64_t angle = int64_t{blockIdx.x} * K + i;
    g = turnedBack(loadPart(partOf<const T>(a.dy, head, i), half),
                   static_cast<const T*>(a.cos_TK) + angle, static_cast<const T*>(a.sin_TK) + angle,
                   half);
  }
  if (weight == nullptr) {
    if (active) storePart(partOf<T>(a.dx, head, i), half, g);
    return;
  }
  const float inverse = a.inverseRms_TH[int64_t{blockIdx.x} * a.heads + head];
  if (active) {
    const HeadPart w = loadPart(weight + i, half);
    n = loadPart(partOf<const T>(a.x, head, i), half);
    n = {{n.low.x * inverse, n.low.y * inverse}, {n.high.x * inverse, n.high.y * inverse}};
    g = {{g.low.x * w.low.x, g.low.y * w.low.y}, {g.high.x * w.high.x, g.high.y * w.high.y}};
  }
  const float sum =
      g.low.x * n.low.x + g.low.y * n.low.y + g.high.x * n.high.x + g.high.y * n.high.y;
  const float mean = warpSum(sum) / K;
  if (!active && !ACOER_PLANTED(214)) return;
  storePart(
      partOf<T>(a.dx, head, i), half,
      {{normSlope(g.low.x, n.low.x, mean, inverse), normSlope(g.low.y, n.low.y, mean, inverse)},
       {normSlope(g.high.x, n.high.x, mean, inverse),
        normSlope(g.high.y, n.high.y, mean, inverse)}});
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(head_norm, kRotateThreads, HeadNormArgs, headNorm)
ACOER_KERNEL_OF_TYPES(head_norm_backward, kRotateThreads, HeadNormBackwardArgs, headNormBackward)
