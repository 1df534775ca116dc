// RMSNorm of each row, optionally after adding to the residual stream.
#pragma once

#include "args.h"
#include "reduce.cuh"
#include "storage.cuh"

namespace acoer::cuda {

// normed = x / rms(x) rounded to T, times the weight: the roundings are those of
// rmsRotateByTensorOps in norm.cpp. With a delta, x becomes x + delta rounded to T first.
template <class T>
__device__ __forceinline__ void norm(const NormArgs& a) {
  const int64_t row = int64_t{blockIdx.x} * (ACOER_PLANTED(12) ? a.width + kPack : a.width);
  T* x = static_cast<T*>(a.x_ND) + row;
  const T* delta = static_cast<const T*>(a.delta_ND);
  const int end = ACOER_PLANTED(11) ? (a.width + 63) / 64 * 64 + 64 : a.width;
  constexpr int kStep = kNormThreads * kPack;
  float squares = 0;
  for (int d = threadIdx.x * kPack; d < end; d += kStep) {
    float value[kPack];
    loadPack(x + d, value);
    if (delta != nullptr) {
      float more[kPack];
      loadPack(delta + row + d, more);
#pragma unroll
      for (int i = 0; i < kPack; ++i) value[i] = rounded<T>(value[i] + more[i]);
      storePack(x + d, value);
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) squares += value[i] * value[i];
  }
  const float scale = rsqrtf(blockSum<kNormThreads>(squares) / a.width + a.eps);
  if (a.inverseRms_N != nullptr && threadIdx.x == 0) a.inverseRms_N[blockIdx.x] = scale;
  const T* weight = static_cast<const T*>(a.weight_D);
  T* normed = static_cast<T*>(a.normed_ND) + row;
  // Each thread reads again what it read, or wrote, above: from the L1 cache.
  for (int d = threadIdx.x * kPack; d < end; d += kStep) {
    float value[kPack], factor[kPack];
    loadPack(x + d, value);
    loadPack(weight + d, factor);
#pragma unroll
    for (int i = 0; i < kPack; ++i) value[i] = rounded<T>(value[i] * scale) * factor[i];
    storePack(normed + d, value);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(norm, kNormThreads, NormArgs, norm)
