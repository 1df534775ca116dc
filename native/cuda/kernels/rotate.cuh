// What lies between the qkv projection and attention: norm, if any, and rotary embedding of every
// query and key head, keys and values into the cache.
#pragma once

#include "args.h"
#include "head_part.cuh"

namespace acoer::cuda {

// One warp a head.
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
    const int place = ACOER_PLANTED(34) ? 0 : position / a.pagePositions;
    const int64_t page = ACOER_PLANTED(31) ? n : a.pages_NT[n * a.pagesPerRow + place];
    to = static_cast<T*>(isKey ? a.keys_SJLK : a.values_SJLK) +
         ((page * a.kvHeads + j) * a.pagePositions + position % a.pagePositions) * K + i;
  }

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
  if (active || ACOER_PLANTED(33)) storePart(to, half, part);
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(rotate, kRotateThreads, RotateArgs, rotate)
