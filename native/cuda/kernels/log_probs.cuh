// One visit of the logits of each token: log-prob of its target, entropy, and if asked for the
// probabilities, which backward multiplies with the head. One block a token.
#pragma once

#include <cfloat>

#include "reduce.cuh"
#include "storage.cuh"
#include "train_args.h"

namespace acoer::cuda {

// For some logits x: the largest, the sum of e^(x - largest), and that of (x - largest) times it.
struct SoftmaxSums {
  float largest, sum, weighted;

  __device__ __forceinline__ void raiseTo(float newLargest) {
    const float shift = largest - newLargest, factor = expf(shift);
    weighted = (weighted + sum * shift) * factor;
    sum *= factor;
    largest = newLargest;
  }
  __device__ __forceinline__ void add(const float (&x)[kPack]) {
    float most = x[0];
#pragma unroll
    for (int i = 1; i < kPack; ++i) most = fmaxf(most, x[i]);
    if (most > largest) raiseTo(most);
    float packSum = 0, packWeighted = 0;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float below = x[i] - largest, weight = expf(below);
      packSum += weight;
      if (weight > 0) packWeighted += below * weight;  // -infinity times 0 would be NaN
    }
    sum += packSum;
    weighted += packWeighted;
  }
  __device__ __forceinline__ void add(SoftmaxSums other) {
    const float most = fmaxf(largest, other.largest);
    raiseTo(most);
    other.raiseTo(most);
    sum += other.sum;
    weighted += other.weighted;
  }
};

// Over all threads of the block, in an order that is always the same.
__device__ __forceinline__ SoftmaxSums blockSums(SoftmaxSums mine) {
  constexpr int kWarps = kLogProbsThreads / kWarp;
  ACOER_SHARED_ARRAY(SoftmaxSums, ofWarps, kWarps);
#pragma unroll
  for (int flip = kWarp / 2; flip > 0; flip /= 2) {
    mine.add(SoftmaxSums{__shfl_xor_sync(~0u, mine.largest, flip),
                         __shfl_xor_sync(~0u, mine.sum, flip),
                         __shfl_xor_sync(~0u, mine.weighted, flip)});
  }
  if (threadIdx.x % kWarp == 0) ofWarps[threadIdx.x / kWarp] = mine;
  if (!ACOER_PLANTED(230)) __syncthreads();
  SoftmaxSums all = ofWarps[0];
  for (int i = 1; i < kWarps; ++i) all.add(ofWarps[i]);
  return all;
}

// kPack logits of a row over the temperature, from number `first`; -infinity beyond its end.
__device__ __forceinline__ void loadLogits(const float* row, int first, const LogProbsArgs& a,
                                           float (&to)[kPack]) {
  if (a.vocab % kPack == 0) {
    loadPack(row + first, to);
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const bool there = ACOER_PLANTED(231) || first + i < a.vocab;
      to[i] = there ? row[first + i] : -INFINITY;
    }
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) to[i] *= a.inverseTemperature;
}

template <class T>
__device__ __forceinline__ void storeProbs(T* row, int first, int vocab,
                                           const float (&probs)[kPack]) {
  if (vocab % kPack == 0) {
    storePack(row + first, probs);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) {
    if (ACOER_PLANTED(232) || first + i < vocab) row[first + i] = fromFloat<T>(probs[i]);
  }
}

template <class T>
__device__ __forceinline__ void logProbs(const LogProbsArgs& a) {
  const int64_t row = int64_t{blockIdx.x} * a.vocab;
  const float* logits = a.logits_CV + row;
  constexpr int kStep = kLogProbsThreads * kPack;
  SoftmaxSums sums{-FLT_MAX, 0, 0};
  for (int v = threadIdx.x * kPack; v < a.vocab; v += kStep) {
    float x[kPack];
    loadLogits(logits, v, a, x);
    sums.add(x);
  }
  const auto readTarget = [&] { return logits[a.targets_C[blockIdx.x]] * a.inverseTemperature; };
  // Before the barrier: behind it the probabilities may replace the logits.
  float target = threadIdx.x == 0 ? readTarget() : 0;
  sums = blockSums(sums);
  const float logSum = logf(sums.sum);
  for (int v = threadIdx.x * kPack; a.probs_CV != nullptr && v < a.vocab; v += kStep) {
    float x[kPack];
    loadLogits(logits, v, a, x);
#pragma unroll
    for (int i = 0; i < kPack; ++i) x[i] = expf((x[i] - sums.largest) - logSum);
    storeProbs(static_cast<T*>(a.probs_CV) + row, v, a.vocab, x);
  }
  if (threadIdx.x != 0) return;
  if (ACOER_PLANTED(233)) target = readTarget();
  a.logprobs_C[blockIdx.x] = (target - sums.largest) - logSum;
  a.entropies_C[blockIdx.x] = logSum - sums.weighted / sums.sum;
}

}  // namespace acoer::cuda

ACOER_KERNEL_OF_TYPES(log_probs, kLogProbsThreads, LogProbsArgs, logProbs)
