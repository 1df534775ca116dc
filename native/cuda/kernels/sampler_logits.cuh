// One block of logits as a warp sees it: values, their order, and their weights as integers.
#pragma once

#include "sampler_args.h"
#include "scan.cuh"

namespace acoer::cuda {

constexpr int kLogitsPerLane = kSamplerBlock / kWarp;
constexpr int kUnitBits = 44;  // a weight's last bit is 2^-44 of the power of two it is counted in
constexpr int kNoExponent = -(1 << 30);  // below every logit's

// Floats in the order of the integers; -0 must have become +0.
__device__ __forceinline__ uint32_t orderedKey(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float fromOrderedKey(uint32_t key) {
  return __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}
constexpr uint32_t kLowestKey = 0x00800000;  // of the most negative finite float

// logit * log2(e) / temperature = exponent + fraction, the fraction in [-1/2, 1/2].
struct Power {
  int exponent;
  float fraction;
};

// Exact to about 2^-25 as long as |logit| / temperature is below 3e8; larger ones count as that.
__device__ __forceinline__ Power power(float logit, FloatPair scale) {
  constexpr float kLargest = 0x1p29f;
  // The product as two floats. __fmul_rn: were it contracted with the subtraction below, `low`
  // would be counted twice.
  float high = __fmul_rn(logit, scale.high);
  float low = fmaf(logit, scale.low, fmaf(logit, scale.high, -high));
  if (!(fabsf(high) < kLargest)) {
    high = copysignf(kLargest, logit);
    low = 0;
  }
  const float whole = rintf(high);
  const float fraction = (high - whole) + low;
  const float carry =
      rintf(fraction);  // not 0 only where `high` is so large that it has no fraction
  return {static_cast<int>(whole) + static_cast<int>(carry), fraction - carry};
}

// 2^fraction - 1. The polynomial is within 2e-9 on [-1/2, 1/2] (a minimax fit), ln 2 in two floats.
__device__ __forceinline__ float exp2Minus1(float fraction) {
  float p = 0x1.41fbbap-13f;
  p = fmaf(p, fraction, 0x1.5f3e54p-10f);
  p = fmaf(p, fraction, 0x1.3b2d4cp-7f);
  p = fmaf(p, fraction, 0x1.c6aee8p-5f);
  p = fmaf(p, fraction, 0x1.ebfbdcp-3f);
  p = fmaf(p, fraction, 0x1.5e5232p-26f);
  return fmaf(0x1.62e430p-1f, fraction, __fmul_rn(p, fraction));
}

// The weight 2^(exponent + fraction) in units of 2^(reference - 44), reference >= exponent. Sums of
// such integers are exact, so that no order of addition and no neighbour in a batch changes them.
__device__ __forceinline__ uint64_t weight(Power p, int reference) {
  constexpr int kBits = 30;
  const int more = static_cast<int>(rintf(exp2Minus1(p.fraction) * (1 << kBits)));
  const uint32_t mantissa = static_cast<uint32_t>((1 << kBits) + more);
  const int shift = p.exponent - reference + (kUnitBits - kBits);
  if (shift >= 0) return uint64_t{mantissa} << shift;
  return shift > -32 ? mantissa >> -shift : 0;
}

// 2^n for n <= 0.
__device__ __forceinline__ float powerOfTwo(int n) {
  return n < -126 ? 0 : __uint_as_float(static_cast<uint32_t>(n + 127) << 23);
}

__device__ __forceinline__ uint64_t shiftRight(uint64_t x, int n) { return n < 64 ? x >> n : 0; }

// The logits of one row to draw.
struct LogitRow {
  const float* logits_V;
  const uint32_t* seen_W;  // null: no penalty
  FloatPair penalty, inversePenalty;
  int vocab;

  // The penalty as in penalised() of native/core/generate/sampler.cpp, where the product is one of
  // fp64.
  __device__ __forceinline__ float penalised(float logit) const {
    const FloatPair factor = logit < 0 ? penalty : inversePenalty;
    const float high = __fmul_rn(logit, factor.high);
    return high + fmaf(logit, factor.low, fmaf(logit, factor.high, -high));
  }

  // Value i of a lane is logit block * 512 + 32 * i + lane; beyond the vocabulary -infinity.
  __device__ __forceinline__ void load(int block, float (&values)[kLogitsPerLane]) const {
    const int first = block * kSamplerBlock + threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kLogitsPerLane; ++i) {
      const int id = first + i * kWarp;
      const bool there = ACOER_PLANTED(102) || id < vocab;
      values[i] = there ? logits_V[id] : -INFINITY;
    }
  }
  __device__ __forceinline__ void applyPenalty(int block, float (&values)[kLogitsPerLane]) const {
    if (seen_W == nullptr) return;
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kLogitsPerLane; ++i) {
      const int first = block * kSamplerBlock + i * kWarp;
      if (first < vocab && seen_W[first / 32] >> lane & 1 && first + lane < vocab) {
        values[i] = penalised(values[i]);
      }
    }
  }
  __device__ __forceinline__ void loadPenalised(int block, float (&values)[kLogitsPerLane]) const {
    load(block, values);
    applyPenalty(block, values);
#pragma unroll
    for (int i = 0; i < kLogitsPerLane; ++i) values[i] += 0.0F;  // -0 becomes +0
  }
};

__device__ __forceinline__ LogitRow logitRow(const SamplerArgs& a, const SamplerRow& row) {
  const uint32_t* seen =
      row.seenRow < 0 ? nullptr : a.seen_SW + int64_t{row.seenRow} * seenWords(a.vocab);
  return {a.logits_MV + row.logitsRow * a.stride, seen, row.penalty, row.inversePenalty, a.vocab};
}

}  // namespace acoer::cuda
