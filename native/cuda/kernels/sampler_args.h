// What the sampler's kernels take and give. Plain C++: the host fills it without CUDA's headers.
//
// N rows to draw, V vocabulary, B = logitBlocks(V), W = seenWords(V).
#pragma once

#include <cmath>
#include <cstdint>

namespace acoer::cuda {

// Logits that one warp adds up: kLogitBlock of the CPU's sampler.
constexpr int kSamplerBlock = 512;
constexpr int kSamplerBlocksThreads = 256;
constexpr int kSamplerDrawThreads = 1024;
// One thread of the draw looks at one block of logits, and a sum of so many weights fits 64 bits.
constexpr int64_t kSamplerMaxVocab = int64_t{kSamplerBlock} * kSamplerDrawThreads;

constexpr int logitBlocks(int64_t vocab) {
  return static_cast<int>((vocab + kSamplerBlock - 1) / kSamplerBlock);
}
constexpr int seenWords(int64_t vocab) { return static_cast<int>((vocab + 31) / 32); }

// A number as the sum of two floats, 48 bits: a card has few fp64 units.
struct FloatPair {
  float high, low;
};

inline FloatPair floatPair(double x) {
  const auto high = static_cast<float>(x);
  return {high, std::isfinite(high) ? static_cast<float>(x - high) : 0.0F};
}

// One token to draw. Several rows may read the same logits.
struct SamplerRow {
  uint64_t seed, sample, position;  // of samplerUniform
  uint64_t topP;                    // in units of 2^-64; 0: off
  FloatPair scale;                  // log2(e) / temperature
  FloatPair penalty, inversePenalty;
  FloatPair minPReach;  // temperature * ln(minP): how far below the largest a logit may lie
  int32_t topK;         // 0: off
  int32_t greedy;
  int32_t logitsRow;  // -1: the row is left out
  // The row of `seen` with the ids that the repetition penalty applies to, of this row alone; -1:
  // there is no penalty.
  int32_t seenRow;
};

// The options of a row; temperature 0 is greedy, as in SamplingOptions. The rest is left to fill
// in.
inline SamplerRow samplerRow(double temperature, int64_t topK, double topP, double minP,
                             double repetitionPenalty) {
  const bool greedy = temperature == 0;
  const double t = greedy ? 1 : temperature;
  SamplerRow row{};
  row.topP = topP >= 1 ? 0 : static_cast<uint64_t>(std::fmax(1, std::ldexp(topP, 64)));
  row.scale = floatPair(1.4426950408889634 / t);
  row.penalty = floatPair(repetitionPenalty);
  row.inversePenalty = floatPair(1 / repetitionPenalty);
  row.minPReach = floatPair(minP > 0 ? t * std::log(minP) : -INFINITY);
  row.topK = static_cast<int32_t>(topK < kSamplerMaxVocab ? topK : 0);
  row.greedy = greedy;
  row.seenRow = -1;
  return row;
}

// Scratch between the two kernels: what one block of logits of one row adds up to. The sums are in
// units of 2^(exponent - 44).
struct LogitBlock {
  uint64_t sum;      // of the weights 2^(logit * scale)
  uint64_t drawSum;  // the same after the penalty
  int32_t exponent, drawExponent;
  float weighted;       // sum of weight * (log2(weight) - exponent), in units of 2^exponent
  uint32_t largestKey;  // after the penalty; see orderedKey
  int32_t largestId;
  int32_t finite;
};

// Draw of native/core/generate/sampler.h.
struct SampledToken {
  int32_t id;
  float logprob, entropy;
  int32_t finite;  // 0: the logits hold NaN or infinity, the rest is 0
};

// Kernel acoer_sampler_blocks: grid (N, samplerGrid(V)), kSamplerBlocksThreads; then kernel
// acoer_sampler_draw: grid (N), kSamplerDrawThreads. No dynamic shared memory.
struct SamplerArgs {
  const float* logits_MV;  // rows `stride` apart
  const SamplerRow* rows_N;
  // Bit id % 32 of word id / 32; the draw adds its own id. Null when no row has a penalty.
  uint32_t* seen_SW;
  LogitBlock* blocks_NB;  // scratch
  SampledToken* tokens_N;
  int64_t stride;
  int32_t vocab;  // at most kSamplerMaxVocab
};

constexpr int samplerGrid(int64_t vocab) {
  constexpr int kWarps = kSamplerBlocksThreads / 32;
  return (logitBlocks(vocab) + kWarps - 1) / kWarps;
}

}  // namespace acoer::cuda
