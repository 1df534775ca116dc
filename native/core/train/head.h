// Log-probs of given tokens over the vocabulary. The logits exist for one chunk of tokens at a
// time.
#pragma once

#include "ops/projection.h"

namespace acoer {

struct HeadResult {
  at::Tensor logprobs_N;   // of the targets under softmax(h W^T / temperature); fp32 (fp64)
  at::Tensor entropies_N;  // in nats
  at::Tensor slopes_ND;    // dlogprob/dh; only if asked for
};

// Softmax in fp32 (fp64 for fp64). With `slopes`, each chunk also computes (W[target] - softmax W)
// / temperature, so that backward need not visit the vocabulary again unless W itself is trained.
HeadResult headForward(const GpuKernels* kernels, const at::Tensor& h_ND, const Matrix& weight_VD,
                       const at::Tensor& targets_N, double temperature, bool slopes,
                       const Cancel& cancel);

// The most bytes that headForward with slopes allocates for `tokens` rows on a GPU.
int64_t headBytes(int64_t tokens, const Matrix& weight_VD);

// For a trained W: recomputes the logits of each chunk, adds dL/dW to `sink` and returns dL/dh.
at::Tensor headBackward(const at::Tensor& h_ND, const Matrix& weight_VD,
                        const at::Tensor& targets_N, double temperature,
                        const at::Tensor& dLogprobs_N, GradientSink& sink, const Cancel& cancel);

}  // namespace acoer
