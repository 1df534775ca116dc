// From logits to tokens: filters, the draw, and the log-prob and entropy that training needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_set>
#include <vector>

namespace acoer {

struct SamplingOptions {
  double temperature = 1;  // 0: greedy, with log-probs at temperature 1
  int64_t topK = 0;        // 0: off
  double topP = 1;         // 1: off
  double minP = 0;         // 0: off
  double repetitionPenalty = 1;
  bool operator==(const SamplingOptions& other) const = default;
};

// One token to draw. Several rows may read the same logits.
struct DrawRow {
  int64_t logitsRow = 0;
  const SamplingOptions* options = nullptr;
  double uniform = 0;  // in (0, 1)
  // The ids that the repetition penalty applies to; null without a penalty.
  const std::unordered_set<int32_t>* seen = nullptr;
};

struct Draw {
  int32_t id = 0;
  // log-softmax(logits / temperature) at `id`, and that distribution's entropy: before the
  // penalty and the filters; temperature 1 for greedy rows.
  double logprob = 0;
  double entropy = 0;
  bool finite = true;  // false: the logits contain NaN or infinity; ignore the rest
};

// Hugging Face's order: penalty, temperature, top-k, top-p, min-p; then the token at which the
// cumulative sum over ids, in ascending order, passes `uniform`. Greedy takes the largest logit
// after the penalty, the lowest id among equals. logits [*, V] in fp32 or fp64, on any device.
std::vector<Draw> drawTokens(const at::Tensor& logits_NV, const std::vector<DrawRow>& rows);

// The same as tensor operations, for logits on any device; drawTokens calls it unless they are on
// the CPU.
std::vector<Draw> drawTokensByTensorOps(const at::Tensor& logits_NV,
                                        const std::vector<DrawRow>& rows);

}  // namespace acoer
