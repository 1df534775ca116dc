// The backward of RMSNorm with respect to its input.
#pragma once

#include "reduce.cuh"
#include "storage.cuh"
#include "train_args.h"

namespace acoer::cuda {

// With n = x r and g = dy w: dx = r (g - n mean(g n)), in fp32 and rounded to T once, then again
// after the residual is added: backwardOps in native/core/ops/norm.cpp.
template <class T>
__device__ __forceinline__ void normBackward(const NormBackwardArgs& a) {
  const int64_t row = int64_t{blockIdx.x} * a.width;
  const T* dy = static_cast<const T*>(a.dy_ND) + row;
  const T* x = static_cast<const T*>(a.x_ND) + row;
  const T* weight = static_cast<const T*>(a.weight_D);
  const T* residual = static_cast<const T*>(a.residual_ND);
  T* dx = static_cast<T*>(a.dx_ND) + row;
  const float inverse = a.inverseRms_N[ACOER_PLANTED(202) ? 0 : blockIdx.x];
  const int end = ACOER_PLANTED(201) ? (a.width + 63) / 64 * 64 + 64 : a.width;
  constexpr int kStep = kNormThreads * kPack;
  float sum = 0;
  for (int d = threadIdx.x * kPack; d < end; d += kStep) {
    float g[kPack], n[kPack], factor[kPack];
    loadPack(dy + d, g);
    loadPack(x + d, n);
    loadPack(weight + d, factor);
#pragma unroll
    for (int i = 0; i < kPack; ++i) sum += (g[i] * factor[i]) * (n[i] * inverse);
  }
  const float mean = blockSum<kNormThreads>(sum) / a.width;
  // From the L1 cache, as in norm.cuh.
  for (int d = threadIdx.x * kPack; d < end; d += kStep) {
    float g[kPack], n[kPack], factor[kPack];
    loadPack(dy + d, g);
    loadPack(x + d, n);
    loadPack(weight + d, factor);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      g[i] = (g[i] * factor[i] - (n[i] * inverse) * mean) * inverse;
    }
    if (residual != nullptr) {
      loadPack(residual + row + d, n);
#pragma unroll
      for (int i = 0; i < kPack; ++i) g[i] = rounded<T>(g[i]) + n[i];
    }
    storePack(dx + d, g);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(norm_backward, kNormThreads, NormBackwardArgs, normBackward)
