// Sampling: prompts prefilled once, continuous batching over decode slots, counter-based noise.
#pragma once

#include <functional>

#include "decode_weights.h"

namespace acoer {

struct SamplingOptions {
  double temperature = 1;  // 0: greedy, with log-probs at temperature 1
  int64_t topK = 0;        // 0: off
  double topP = 1;         // 1: off
  double minP = 0;         // 0: off
  double repetitionPenalty = 1;
};

// `numSamples` sequences from one prompt. Sample s draws its token at position t (0 = first new
// token) from Philox(key = seed, counter = (firstSample + s, t)): the batch cannot change it.
struct GenerateRequest {
  std::vector<int32_t> promptIds;
  int64_t numSamples = 1;
  int64_t firstSample = 0;
  uint64_t seed = 0;
  int64_t maxNewTokens = 512;
  std::vector<int32_t> stopIds;
  SamplingOptions sampling;
  const Policy* policy = nullptr;  // null: the base
};

struct GenerateOptions {
  int64_t maxSlots = 64;  // sequences decoded together; fewer when kvBytes says so
  int64_t kvBytes = 0;    // limit on the KV cache; 0: a share of what is free
  DecodePath path = DecodePath::kAuto;
};

enum class FinishReason { kStop, kLength, kCancelled };

struct GeneratedSequence {
  int64_t request = 0;
  int64_t sample = 0;
  std::vector<int32_t> ids;  // new tokens, the stop id included
  // log-softmax(logits / temperature) of each token, before top-k, top-p, min-p and penalty.
  std::vector<double> logprobs;
  std::vector<double> entropies;  // of the same distribution
  FinishReason finish = FinishReason::kStop;
};

struct GenerateStats {
  int64_t promptTokens = 0;  // prefilled, each prompt once
  int64_t newTokens = 0;
  int64_t decodeSteps = 0;
  int64_t peakSlots = 0;
  double prefillMs = 0;
  double decodeMs = 0;
};

// Calls onSequence on this thread as each sequence ends. After a cancel request, what is in
// flight comes back with kCancelled (with the tokens it had) and the call returns normally.
GenerateStats generate(const Model& model, const std::vector<GenerateRequest>& requests,
                       const GenerateOptions& options,
                       const std::function<void(GeneratedSequence&&)>& onSequence,
                       const Cancel& cancel);

}  // namespace acoer
