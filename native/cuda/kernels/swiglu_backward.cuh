// The backward of the MLP's activation, into one fused row.
#pragma once

#include "storage.cuh"
#include "train_args.h"

namespace acoer::cuda {

// With s = sigmoid(gate): d(silu(gate))/dgate = s (1 + gate (1 - s)). dy up, its product with that,
// silu, and silu dy are each rounded to T, as the operations of swigluBackward in
// native/core/ops/norm.cpp round them.
template <class T>
__device__ __forceinline__ void swigluBackward(const SwigluBackwardArgs& a) {
  const int f = (blockIdx.y * kSwigluThreads + threadIdx.x) * kPack;
  if (!ACOER_PLANTED(220) && f >= a.width) return;
  const int64_t fused = int64_t{blockIdx.x} * 2 * a.width + f;
  const T* gateUp = static_cast<const T*>(a.gateUp_N2F) + fused;
  T* dGateUp = static_cast<T*>(a.dGateUp_N2F) + fused;
  float dy[kPack], gate[kPack], up[kPack];
  loadPack(static_cast<const T*>(a.dy_NF) + int64_t{blockIdx.x} * a.width + f, dy);
  loadPack(gateUp, gate);
  loadPack(gateUp + a.width, up);
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    const float x = gate[i], grows = 1 + expf(-x), s = 1 / grows;
    gate[i] = rounded<T>(dy[i] * up[i]) * (s * (1 + x * (1 - s)));
    up[i] = rounded<T>(x / grows) * dy[i];
  }
  storePack(dGateUp, gate);
  storePack(dGateUp + (ACOER_PLANTED(221) ? 0 : a.width), up);
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(swiglu_backward, kSwigluThreads, SwigluBackwardArgs, swigluBackward)
