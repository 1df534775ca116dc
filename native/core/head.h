// Log-probs of given tokens over the vocabulary: the logits exist for one chunk of tokens only.
#pragma once

#include "projection.h"

namespace acoer {

struct HeadResult {
  at::Tensor logprobs_N;   // of the targets under softmax(h W^T / temperature); fp32 (fp64)
  at::Tensor entropies_N;  // natural log
  at::Tensor slopes_ND;    // dlogprob/dh; only when asked for
};

// Softmax in fp32 (fp64 for fp64). With `slopes`, each chunk also leaves
// (W[target] - softmax W) / temperature, so that no second visit to the vocabulary is needed when W
// itself is not trained.
HeadResult headForward(const at::Tensor& h_ND, const at::Tensor& weight_VD,
                       const at::Tensor& targets_N, double temperature, bool slopes,
                       const Cancel& cancel);

// For a trained W: makes the logits of each chunk again, gives dL/dW to `sink` and returns dL/dh.
at::Tensor headBackward(const at::Tensor& h_ND, const at::Tensor& weight_VD,
                        const at::Tensor& targets_N, double temperature,
                        const at::Tensor& dLogprobs_N, GradientSink& sink, const Cancel& cancel);

}  // namespace acoer
