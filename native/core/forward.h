// One pass over packed sequences and its backward. What is differentiated is the log-probs: which
// loss is made of them, and its slope at each, is the caller's.
#pragma once

#include <optional>

#include "packed.h"
#include "policy.h"

namespace acoer {

// Per completion token, in the order of the sequences.
struct ScoreResult {
  std::vector<double> logprobs;   // [completionTokens]
  std::vector<double> entropies;  // [completionTokens], natural log
};

// Log-probs and entropies of the completion tokens under softmax(logits / temperature), without
// gradients; the logits exist for one chunk of tokens at a time. Values that are not finite are
// returned as they are. `policy` null: the base (reference policy). Throws kBadArgument or
// kBadShape for bad sequences (packed.h), a temperature that is not above 0, or a policy of another
// model.
ScoreResult score(const Model& model, const Policy* policy, const PackedSequences& batch,
                  double temperature, const Cancel& cancel);

// Up to this many bytes of activations are kept for backward; above it each layer keeps its input
// alone and is run again.
constexpr int64_t kDefaultKeepBytes = int64_t{256} << 20;

// As score(), and the policy keeps a tape: what backward() needs. A policy has one tape; each
// forward drops the one before first, so that after an exception, a cancelled call's too, there is
// none. step(), zeroGradients(), restorePolicy() and the policy's end drop it as well.
//
// Out of memory with several sequences is thrown on: the caller can cut them apart. With a single
// one, the pass is repeated first with `keepBytes` 0.
ScoreResult forward(Policy& policy, const PackedSequences& batch, double temperature,
                    const std::optional<DropoutKey>& dropout, const Cancel& cancel,
                    int64_t keepBytes = kDefaultKeepBytes);

// Adds the gradient of sum_t dLogprobs[t] * logprob[t] over the last forward's completion tokens to
// the policy's gradients. Consumes the tape, also when it throws; after any exception the gradients
// are as before. Slopes that are all zero compute nothing, and so does a forward without completion
// tokens.
//
// Throws kBadArgument without a tape or for a slope that is not finite, kBadShape for another
// number of slopes than of completion tokens. Out of memory with several sequences is thrown on;
// with a single one whose activations were kept, forward and backward are repeated first with
// `keepBytes` 0.
void backward(Policy& policy, const std::vector<double>& dLogprobs, const Cancel& cancel);

// Bytes of the tensors that only the policy's tape holds; 0 without a tape. What autograd adds to
// attention, one number per head and token, is left out.
int64_t tapeBytes(const Policy& policy);

}  // namespace acoer
