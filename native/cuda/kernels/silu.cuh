// The activation of the MLP on what a thread holds.
#pragma once

#include "storage.cuh"

namespace acoer::cuda {

// up becomes silu(gate) up. silu is rounded to T before the product, as ATen's two operations round
// it.
template <class T>
__device__ __forceinline__ void activate(const float (&gate)[kPack], float (&up)[kPack]) {
#pragma unroll
  for (int i = 0; i < kPack; ++i) up[i] *= rounded<T>(gate[i] / (1 + expf(-gate[i])));
}

}  // namespace acoer::cuda
