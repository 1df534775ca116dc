// Which logits of a row top-k, top-p and min-p leave, by one block of threads: a threshold is found
// by its digits, from the top, instead of sorting.
#pragma once

#include "sampler_logits.cuh"

namespace acoer::cuda {

// Kept are the logits with a larger key, and those with this one up to `lastTie`.
struct Kept {
  uint32_t key;
  int32_t lastTie;
  __device__ __forceinline__ bool holds(float value, int id) const {
    const uint32_t k = orderedKey(value);
    return k > key || (k == key && id <= lastTie);
  }
};
constexpr int32_t kAllTies = 0x7FFFFFFF;

// Eleven, eleven and ten bits: with fewer, most logits of a row share one bin of the first digit,
// and the additions to it wait for each other.
constexpr int kDigits = 3;
constexpr int kBins = 2048;

// What lies in each bin of a digit, as two halves: shared memory adds 32 bits at a time.
struct Histogram {
  uint32_t* low;
  uint32_t* high;
  __device__ __forceinline__ void add(int bin, uint64_t amount) const {
    const auto lowHalf = static_cast<uint32_t>(amount);
    const uint32_t before = atomicAdd(&low[bin], lowHalf);
    const uint32_t carry = before + lowHalf < before && !ACOER_PLANTED(103) ? 1 : 0;
    const uint32_t highHalf = static_cast<uint32_t>(amount >> 32) + carry;
    if (highHalf != 0) atomicAdd(&high[bin], highHalf);
  }
  __device__ __forceinline__ uint64_t at(int bin) const {
    return uint64_t{high[bin]} << 32 | low[bin];
  }
};

// A key, and how much of the amount asked for the logits of just this key must bring.
struct Threshold {
  uint32_t key;
  uint64_t left;
};

// The largest key such that the logits from it upwards have `needed(total)` of the amount, of all
// logits from `lowest` upwards.
template <class Amount, class Needed>
__device__ __forceinline__ Threshold findThreshold(const LogitRow& row, const LogitBlock* blocks_B,
                                                   uint32_t lowest, const Amount& amount,
                                                   const Needed& needed) {
  ACOER_SHARED_ARRAY(uint32_t, lowHalves, kBins);
  ACOER_SHARED_ARRAY(uint32_t, highHalves, kBins);
  ACOER_SHARED_ARRAY(uint64_t, above, 1);
  ACOER_SHARED_ARRAY(int, chosen, 1);
  static_assert(kBins == 2 * kSamplerDrawThreads);
  const Histogram histogram{lowHalves, highHalves};
  const int thread = threadIdx.x, blocks = logitBlocks(row.vocab);
  Threshold threshold{0, 0};
  uint32_t known = 0;  // the bits of the digits found
  for (int digit = 0; digit < kDigits; ++digit) {
    const int shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
    const uint32_t bins = digit == 2 ? kBins / 2 : kBins;
    for (int bin = thread; bin < kBins; bin += kSamplerDrawThreads) {
      lowHalves[bin] = 0;
      highHalves[bin] = 0;
    }
    if (!ACOER_PLANTED(104)) __syncthreads();
    const uint32_t smallest = threshold.key > lowest ? threshold.key : lowest;
    for (int b = thread / kWarp; b < blocks; b += kSamplerDrawThreads / kWarp) {
      if (blocks_B[b].largestKey < smallest) continue;
      float values[kLogitsPerLane];
      row.loadPenalised(b, values);
#pragma unroll
      for (int i = 0; i < kLogitsPerLane; ++i) {
        const uint32_t key = orderedKey(values[i]);
        if (key < lowest || (key & known) != threshold.key) continue;
        histogram.add(static_cast<int>(key >> shift & (bins - 1)), amount(values[i]));
      }
    }
    if (!ACOER_PLANTED(105)) __syncthreads();
    // Two bins a thread, from the top.
    const int upper = kBins - 1 - 2 * thread;
    const uint64_t inUpper = histogram.at(upper), inBoth = inUpper + histogram.at(upper - 1);
    const Scan scan = blockScan<kSamplerDrawThreads>(inBoth);
    if (digit == 0) threshold.left = needed(scan.total);
    const uint64_t before = scan.upTo - inBoth;
    if (before < threshold.left && threshold.left <= scan.upTo) {
      const bool first = before + inUpper >= threshold.left;
      chosen[0] = first ? upper : upper - 1;
      above[0] = first ? before : before + inUpper;
    }
    if (!ACOER_PLANTED(106)) __syncthreads();
    threshold.key |= static_cast<uint32_t>(chosen[0]) << shift;
    threshold.left -= above[0];
    known |= (bins - 1) << shift;
  }
  return threshold;
}

// The id of the `count`-th logit of this key, by one warp; kAllTies when there are no more.
__device__ __forceinline__ int32_t findTie(const LogitRow& row, const LogitBlock* blocks_B,
                                           uint32_t key, uint64_t count) {
  const int blocks = logitBlocks(row.vocab);
  for (int b = 0; b < blocks; ++b) {
    if (blocks_B[b].largestKey < key) continue;
    float values[kLogitsPerLane];
    row.loadPenalised(b, values);
    for (int i = 0; i < kLogitsPerLane; ++i) {
      uint32_t ties = __ballot_sync(~0u, orderedKey(values[i]) == key);
      const auto here = static_cast<uint64_t>(__popc(ties));
      if (count <= here) {
        for (; count > 1; --count) ties &= ties - 1;
        return b * kSamplerBlock + i * kWarp + __ffs(ties) - 1;
      }
      count -= here;
    }
  }
  return kAllTies;
}

// The key of the smallest float that is not below largest + reach.
__device__ __forceinline__ uint32_t minPKey(float largest, FloatPair reach) {
  const float sum = largest + reach.high;
  const float part = sum - largest;  // what was added, and what was lost with it
  const float lost = (largest - (sum - part)) + (reach.high - part) + reach.low;
  return orderedKey(sum + 0.0F) + (lost > 0 ? 1 : 0);
}

// Top-k, top-p, min-p, one after the other as in native/core/generate/sampler.cpp. `exponent` is
// that of the row's weights after the penalty, `largestKey` the largest logit's.
__device__ __forceinline__ Kept filterLogits(const LogitRow& row, const LogitBlock* blocks_B,
                                             const SamplerRow& options, int exponent,
                                             uint32_t largestKey) {
  Kept kept{kLowestKey, kAllTies};
  if (options.topK > 0 && options.topK < row.vocab) {
    const auto one = [](float) { return uint64_t{1}; };
    const auto needed = [&](uint64_t) { return static_cast<uint64_t>(options.topK); };
    kept.key = findThreshold(row, blocks_B, kept.key, one, needed).key;
  }
  if (options.topP != 0) {
    const auto mass = [&](float value) { return weight(power(value, options.scale), exponent); };
    // A logit stays while the mass above it is less than topP of the total.
    const auto needed = [&](uint64_t total) {
      const uint64_t share = __umul64hi(total, options.topP);
      return share > 0 ? share : 1;  // the largest logit stays
    };
    const Threshold found = findThreshold(row, blocks_B, kept.key, mass, needed);
    kept.key = found.key;
    ACOER_SHARED_ARRAY(int32_t, lastTie, 1);
    if (threadIdx.x < kWarp && !ACOER_PLANTED(107)) {
      const uint64_t each = mass(fromOrderedKey(found.key));
      const int32_t last = findTie(row, blocks_B, found.key, (found.left + each - 1) / each);
      if (threadIdx.x == 0) lastTie[0] = last;
    }
    __syncthreads();
    kept.lastTie = ACOER_PLANTED(107) ? kAllTies : lastTie[0];
  }
  if (isfinite(options.minPReach.high)) {
    const uint32_t key = minPKey(fromOrderedKey(largestKey), options.minPReach);
    if (key > kept.key) kept = {key, kAllTies};
  }
  return kept;
}

}  // namespace acoer::cuda
