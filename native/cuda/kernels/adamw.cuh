// The optimiser over all parameters of a policy at once: squares of the gradients, and the update.
#pragma once

#include "reduce.cuh"
#include "train_args.h"

namespace acoer::cuda {

// The part of a tensor that a block works on.
struct AdamWPart {
  AdamWTensor tensor;
  int64_t first, end;
};

__device__ __forceinline__ AdamWPart partOfBlock(const AdamWTensor* tensors, int count) {
  // The last tensor that begins at or before this block.
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (tensors[middle].firstBlock <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const AdamWTensor tensor = tensors[ACOER_PLANTED(240) && low > 0 ? low - 1 : low];
  const int64_t first = (blockIdx.x - tensor.firstBlock) * kAdamWChunk;
  const int64_t end = first + kAdamWChunk;
  return {tensor, first, !ACOER_PLANTED(241) && end > tensor.count ? tensor.count : end};
}

__device__ __forceinline__ void gradientSquares(const GradientSquaresArgs& a) {
  const AdamWPart part = partOfBlock(a.tensors, a.tensorCount);
  float squares = 0;
  if (part.tensor.gradient != nullptr) {
    for (int64_t i = part.first + threadIdx.x; i < part.end; i += kAdamWThreads) {
      const float g = part.tensor.gradient[i];
      squares += g * g;
    }
  }
  const float sum = blockSum<kAdamWThreads>(squares);
  if (threadIdx.x == 0) a.sums_B[blockIdx.x] = sum;
}

// Operation by operation what updateParameter in native/core/train/adamw.cpp does.
__device__ __forceinline__ void adamW(const AdamWArgs& a) {
  const AdamWPart part = partOfBlock(a.tensors, a.tensorCount);
  const AdamWTensor& t = part.tensor;
#pragma unroll 4
  for (int64_t i = part.first + threadIdx.x; i < part.end; i += kAdamWThreads) {
    const float g = t.gradient == nullptr ? 0 : t.gradient[i] * a.clip;
    const float average = t.expAvg[i], square = t.expAvgSq[i];
    const float newAverage = average + a.oneMinusBeta1 * (g - average);
    const float newSquare = square * a.beta2 + a.oneMinusBeta2 * (g * g);
    const float denominator = sqrtf(newSquare) / a.rootCorrection2 + a.eps;
    t.expAvg[i] = newAverage;
    t.expAvgSq[i] = newSquare;
    t.value[i] = t.value[i] * a.keep - a.stepSize * (newAverage / denominator);
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL(gradient_squares, kAdamWThreads, GradientSquaresArgs, gradientSquares)
ACOER_KERNEL(adamw, kAdamWThreads, AdamWArgs, adamW)
