// The training and scoring forward over packed sequences, and the pieces decoding shares with it.
#pragma once

#include <optional>

#include "policy.h"

namespace acoer {

// B sequences laid end to end: tokens of b are ids[offsets[b] .. offsets[b+1]).
struct PackedSequences {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;        // B + 1
  std::vector<int64_t> promptLengths;  // B; log-probs are made from this position of each on
  int64_t count() const { return static_cast<int64_t>(promptLengths.size()); }
  // Tokens from promptLengths on, over all sequences: the length of every per-token result.
  int64_t completionTokens() const;
};

// Dropout noise is a function of this key, the sequence's ids, the token's position, the layer and
// the target: recomputation and any cut into micro-batches see the same masks.
struct DropoutKey {
  uint64_t seed = 0;
};

// x * w / rms(x): statistics in fp32 (fp64 for fp64), back to x's type, then times the weight.
at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight_D, double eps);

// cos and sin of shape [n, K] for the given positions, in fp32 (fp64 for fp64 models).
struct RopeTable {
  at::Tensor cos_PK;
  at::Tensor sin_PK;
};
RopeTable ropeTable(const ModelConfig& config, int64_t positions, at::Device device,
                    at::ScalarType dtype);

// Hidden states after the final norm, [T, D], without gradients (accumulate() in train.h has its
// own backward).
at::Tensor forwardHidden(const Model& model, const Policy* policy, const PackedSequences& batch,
                         const std::optional<DropoutKey>& dropout, const Cancel& cancel);

struct ScoreResult {
  std::vector<double> logprobs;   // [completionTokens]
  std::vector<double> entropies;  // [completionTokens], natural log
};

// Log-probs and entropies of the completion tokens at `temperature`, without gradients; the
// logits exist for one chunk of tokens at a time. `policy` null: the base (reference policy).
ScoreResult score(const Model& model, const Policy* policy, const PackedSequences& batch,
                  double temperature, const Cancel& cancel);

}  // namespace acoer
