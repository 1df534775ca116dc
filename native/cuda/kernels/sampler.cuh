// From logits to tokens: native/core/generate/sampler.cpp on the device, without fp64.
//
// Weights are integers (sampler_logits.cuh) and the random number is compared as one, so sums are
// exact and the only rounding is that of each weight, at most 2^-24 of itself. A row draws the
// token that the CPU's sampler draws unless the random number lies within 2^-24 of the border
// between two tokens; with top-p also unless that share of the mass falls within 2^-24 of one.
// After a repetition penalty a logit may differ from the CPU's in its last bit, where the penalty
// or its inverse has more than 48 bits.
#pragma once

#include "philox.cuh"
#include "sampler_filter.cuh"

namespace acoer::cuda {

struct LogitSums {
  int exponent;
  uint64_t sum;
  float weighted;
};

// Over one block of logits, by one warp; see LogitBlock.
__device__ __forceinline__ LogitSums sumLogits(const float (&values)[kLogitsPerLane],
                                               FloatPair scale) {
  int exponent = kNoExponent;
#pragma unroll
  for (int i = 0; i < kLogitsPerLane; ++i) {
    const int own = power(values[i], scale).exponent;
    exponent = own > exponent ? own : exponent;
  }
  LogitSums sums{warpLargest(exponent), 0, 0};
#pragma unroll
  for (int i = 0; i < kLogitsPerLane; ++i) {
    const Power p = power(values[i], scale);
    sums.sum += weight(p, sums.exponent);
    const int below = p.exponent - sums.exponent;
    const float size = (1 + exp2Minus1(p.fraction)) * powerOfTwo(below);
    sums.weighted = fmaf(size, static_cast<float>(below) + p.fraction, sums.weighted);
  }
  sums.sum = warpSum(sums.sum);
  sums.weighted = warpSum(sums.weighted);
  return sums;
}

// Each warp one block of logits.
__device__ __forceinline__ void sumLogitBlocks(const SamplerArgs& a) {
  const int lane = threadIdx.x % kWarp, blocks = logitBlocks(a.vocab);
  const int b =
      static_cast<int>(blockIdx.y * (kSamplerBlocksThreads / kWarp) + threadIdx.x / kWarp);
  if (b >= blocks) return;
  const SamplerRow& options = a.rows_N[blockIdx.x];
  if (options.logitsRow < 0) return;
  const LogitRow row = logitRow(a, options);
  float values[kLogitsPerLane];
  row.load(b, values);
  bool finite = true;
#pragma unroll
  for (int i = 0; i < kLogitsPerLane; ++i) {
    if (!isfinite(values[i]) && b * kSamplerBlock + i * kWarp + lane < a.vocab) {
      finite = false;
      values[i] = 0;  // any number: the row's token is not used
    }
  }
  finite = __all_sync(~0u, finite);
  const LogitSums plain = sumLogits(values, options.scale);
  LogitSums penalised = plain;
  if (row.seen_W != nullptr) {
    row.applyPenalty(b, values);
    penalised = sumLogits(values, options.scale);
  }
  uint64_t largest = 0;  // key and id, the lowest id among equals
#pragma unroll
  for (int i = 0; i < kLogitsPerLane; ++i) {
    const auto id = static_cast<uint32_t>(b * kSamplerBlock + i * kWarp + lane);
    const uint64_t own =
        uint64_t{orderedKey(values[i] + 0.0F)} << 32 | (ACOER_PLANTED(108) ? id : ~id);
    largest = own > largest ? own : largest;
  }
  largest = warpLargest(largest);
  if (lane != 0) return;
  const auto id = static_cast<uint32_t>(largest);
  a.blocks_NB[int64_t{blockIdx.x} * blocks + b] = {
      plain.sum,
      penalised.sum,
      plain.exponent,
      penalised.exponent,
      plain.weighted,
      static_cast<uint32_t>(largest >> 32),
      static_cast<int32_t>(ACOER_PLANTED(108) ? id : ~id),
      finite};
}

// The token at which the sum of weights by ascending id passes u of their total, u as
// samplerMantissa gives it. `own` is the sum over block b of the logits, for thread b.
template <class Weights>
__device__ __forceinline__ int32_t pickToken(uint64_t own, uint64_t mantissa, const LogitRow& row,
                                             const Weights& weights) {
  ACOER_SHARED_ARRAY(int, chosenBlock, 1);
  ACOER_SHARED_ARRAY(uint64_t, targetWithin, 1);
  ACOER_SHARED_ARRAY(int32_t, chosenId, 1);
  const Scan scan = blockScan<kSamplerDrawThreads>(own);
  const uint64_t target = __umul64hi(scan.total, mantissa << 11);  // u * total, rounded down
  const uint64_t before = scan.upTo - own;
  if (before <= target && target < scan.upTo) {
    chosenBlock[0] = static_cast<int>(threadIdx.x);
    targetWithin[0] = target - before;
  }
  if (!ACOER_PLANTED(109)) __syncthreads();
  if (threadIdx.x < kWarp) {
    const int b = chosenBlock[0];
    float values[kLogitsPerLane];
    row.loadPenalised(b, values);
    uint64_t within = 0;
    for (int i = 0; i < kLogitsPerLane; ++i) {
      const int first = b * kSamplerBlock + i * kWarp;
      const uint64_t sum = within + warpScan(weights.weight(b, first + threadIdx.x, values[i]));
      const uint32_t beyond = __ballot_sync(~0u, weights.inRowUnits(b, sum) > targetWithin[0]);
      if (beyond != 0) {
        if (threadIdx.x == 0) chosenId[0] = first + __ffs(beyond) - 1;
        break;
      }
      within = __shfl_sync(~0u, sum, kWarp - 1);
    }
  }
  __syncthreads();
  return chosenId[0];
}

// Weights of a row without filters, in the unit of their block, whose sum is known.
struct BlockWeights {
  const LogitBlock* blocks_B;
  FloatPair scale;
  int exponent;  // the row's
  __device__ __forceinline__ uint64_t weight(int block, int, float value) const {
    return cuda::weight(power(value, scale), blocks_B[block].drawExponent);
  }
  __device__ __forceinline__ uint64_t inRowUnits(int block, uint64_t sum) const {
    return shiftRight(sum, exponent - blocks_B[block].drawExponent);
  }
};

// Weights of what the filters left, in the row's unit.
struct KeptWeights {
  Kept kept;
  FloatPair scale;
  int exponent;
  __device__ __forceinline__ uint64_t weight(int, int id, float value) const {
    return kept.holds(value, id) ? cuda::weight(power(value, scale), exponent) : 0;
  }
  __device__ __forceinline__ uint64_t inRowUnits(int, uint64_t sum) const { return sum; }
};

// The sum over each block of logits of what the filters left: that of block b for thread b.
__device__ __forceinline__ uint64_t sumKept(const LogitRow& row, const LogitBlock* blocks_B,
                                            const KeptWeights& weights) {
  ACOER_SHARED_ARRAY(uint64_t, sums, kSamplerDrawThreads);
  const int thread = threadIdx.x, blocks = logitBlocks(row.vocab);
  for (int b = thread / kWarp; b < blocks; b += kSamplerDrawThreads / kWarp) {
    uint64_t sum = 0;
    if (blocks_B[b].largestKey >= weights.kept.key) {
      float values[kLogitsPerLane];
      row.loadPenalised(b, values);
#pragma unroll
      for (int i = 0; i < kLogitsPerLane; ++i) {
        const int id = b * kSamplerBlock + i * kWarp + thread % kWarp;
        sum += weights.weight(b, id, values[i]);
      }
      sum = warpSum(sum);
    }
    if (thread % kWarp == 0) sums[b] = sum;
  }
  if (!ACOER_PLANTED(110)) __syncthreads();
  return thread < blocks ? sums[thread] : 0;
}

// One row to draw.
__device__ __forceinline__ void drawToken(const SamplerArgs& a) {
  const SamplerRow& options = a.rows_N[blockIdx.x];
  if (options.logitsRow < 0) return;
  const LogitRow row = logitRow(a, options);
  const int thread = threadIdx.x, blocks = logitBlocks(a.vocab);
  const LogitBlock* blocks_B = a.blocks_NB + int64_t{blockIdx.x} * blocks;
  LogitBlock own{0, 0, kNoExponent, kNoExponent, 0, 0, 0, 1};
  if (thread < blocks) own = blocks_B[thread];
  SampledToken token{0, 0, 0, 0};
  if (blockLargest<kSamplerDrawThreads>(own.finite ? 0 : 1) != 0) {
    if (thread == 0) a.tokens_N[blockIdx.x] = token;
    return;
  }
  constexpr int kThreads = kSamplerDrawThreads;
  const int exponent = blockLargest<kThreads>(own.exponent);
  const int drawExponent = blockLargest<kThreads>(own.drawExponent);
  const uint64_t largest = blockLargest<kThreads>(uint64_t{own.largestKey} << 32 |
                                                  ~static_cast<uint32_t>(own.largestId));
  const auto largestKey = static_cast<uint32_t>(largest >> 32);
  if (options.greedy) {
    token.id = static_cast<int32_t>(~static_cast<uint32_t>(largest));
  } else {
    const bool filtered = options.topK > 0 || options.topP != 0 || isfinite(options.minPReach.high);
    const uint64_t mantissa = samplerMantissa(options.seed, options.sample, options.position);
    if (filtered) {
      const Kept kept = filterLogits(row, blocks_B, options, drawExponent, largestKey);
      const KeptWeights weights{kept, options.scale, drawExponent};
      token.id = pickToken(sumKept(row, blocks_B, weights), mantissa, row, weights);
    } else {
      const uint64_t sum = shiftRight(own.drawSum, drawExponent - own.drawExponent);
      const BlockWeights weights{blocks_B, options.scale, drawExponent};
      token.id = pickToken(sum, mantissa, row, weights);
    }
  }
  // The distribution before penalty and filters, in powers of two.
  const int below = own.exponent - exponent;
  const float unit = powerOfTwo(-kUnitBits);
  const float sum =
      static_cast<float>(blockScan<kThreads>(shiftRight(own.sum, -below)).total) * unit;
  const float lower = static_cast<float>(below) * (static_cast<float>(own.sum) * unit);
  const float shrink = ACOER_PLANTED(111) ? 1 : powerOfTwo(below);
  const float weighted = blockSum<kThreads>(shrink == 0 ? 0 : shrink * (own.weighted + lower));
  if (thread != 0) return;
  constexpr float kLn2 = 0.6931471805599453F;
  const float logSum = log2f(sum);
  const Power p = power(row.logits_V[token.id], options.scale);
  token.logprob = kLn2 * (static_cast<float>(p.exponent - exponent) + (p.fraction - logSum));
  token.entropy = fmaxf(0, kLn2 * (logSum - weighted / sum));
  token.finite = 1;
  a.tokens_N[blockIdx.x] = token;
  if (options.seenRow >= 0) {
    a.seen_SW[int64_t{options.seenRow} * seenWords(a.vocab) + token.id / 32] |= 1u << token.id % 32;
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL(sampler_blocks, kSamplerBlocksThreads, SamplerArgs, sumLogitBlocks)
ACOER_KERNEL(sampler_draw, kSamplerDrawThreads, SamplerArgs, drawToken)
