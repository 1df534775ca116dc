// The activation of the MLP: silu(gate) * up from one fused row.
#pragma once

#include "args.h"
#include "silu.cuh"

namespace acoer::cuda {

template <class T>
__device__ __forceinline__ void swiglu(const SwigluArgs& a) {
  const int f = (blockIdx.y * kSwigluThreads + threadIdx.x) * kPack;
  if (!ACOER_PLANTED(20) && f >= a.width) return;
  const T* gateUp = static_cast<const T*>(a.gateUp_N2F) + int64_t{blockIdx.x} * 2 * a.width;
  float gate[kPack], up[kPack];
  loadPack(gateUp + f, gate);
  loadPack(gateUp + (ACOER_PLANTED(21) ? a.width - kPack : a.width) + f, up);
  activate<T>(gate, up);
  storePack(static_cast<T*>(a.act_NF) + int64_t{blockIdx.x} * a.width + f, up);
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(swiglu, kSwigluThreads, SwigluArgs, swiglu)
