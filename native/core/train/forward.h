// One pass over packed sequences, and its backward. Only log-probs are differentiated: the caller
// makes a loss of them and passes in its derivative at each (its slope).
#pragma once

#include <optional>

#include "model/policy.h"
#include "ops/packed.h"

namespace acoer {

// Per completion token, in the order of the sequences.
struct ScoreResult {
  std::vector<double> logprobs;   // [completionTokens]
  std::vector<double> entropies;  // [completionTokens], in nats
};

// Log-probs and entropies of the completion tokens under softmax(logits / temperature), without
// gradients; the logits exist for one chunk of tokens at a time. Non-finite values are returned as
// they are. A null `policy` is the base, i.e. the reference policy. Throws kBadArgument or
// kBadShape for bad sequences (packed.h), a temperature that is not above 0, or a policy of another
// model.
ScoreResult score(const Model& model, const Policy* policy, const PackedSequences& batch,
                  double temperature, const Cancel& cancel);

// Activations are kept for backward up to this share of the memory that is available, without what
// the head takes; a layer that does not fit keeps only its input and is recomputed. On a CPU, whose
// memory is shared with other programs, as many layers are kept as fit; on a GPU all or none.
constexpr double kKeepShareCpu = 0.25, kKeepShareGpu = 0.75;

// Like score(), but the policy also keeps a tape, which holds what backward() needs. A policy has
// at most one tape. Each forward first drops the previous one, so there is none after an exception
// or a cancelled call. step(), zeroGradients(), restorePolicy() and destroying the policy drop it,
// too.
//
// If memory runs out with several sequences, the error is thrown: the caller can split the batch.
// With a single sequence, the pass is first retried with `keepBytes` 0. `keepBytes` replaces the
// share above.
ScoreResult forward(Policy& policy, const PackedSequences& batch, double temperature,
                    const std::optional<DropoutKey>& dropout, const Cancel& cancel,
                    std::optional<int64_t> keepBytes = std::nullopt);

// Adds the gradient of sum_t dLogprobs[t] * logprob[t], over the completion tokens of the last
// forward, to the policy's gradients. Consumes the tape even if it throws; after an exception the
// gradients are unchanged. Does nothing if all slopes are zero or the forward had no completion
// tokens.
//
// Throws kBadArgument without a tape or for a slope that is not finite, kBadShape unless there is
// one slope per completion token. If memory runs out with several sequences, the error is thrown;
// with a single one whose activations were kept, forward and backward are first retried with
// `keepBytes` 0.
void backward(Policy& policy, const std::vector<double>& dLogprobs, const Cancel& cancel);

// Bytes of the tensors that only the policy's tape holds; 0 without a tape. Leaves out what
// autograd saves for attention, one number per head and token.
int64_t tapeBytes(const Policy& policy);

}  // namespace acoer
