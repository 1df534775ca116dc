#include "head.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace acoer {

namespace {

// 64 MB of fp32 logits; chunks of fewer than 64 tokens would waste the matrix product.
constexpr int64_t kChunkElements = int64_t{1} << 24;
constexpr int64_t kMinChunkTokens = 64;

int64_t chunkTokens(int64_t vocabulary) {
  return std::max(kMinChunkTokens, kChunkElements / vocabulary);
}

// Vocabulary rows of a bf16 head widened to fp32 at a time.
constexpr int64_t kWidenedRows = 4096;

// A bf16 product would round the logits in steps of up to 0.125, so they are computed in fp32, as
// in the sampler.
at::Tensor logitsOf(const at::Tensor& h_CD, const at::Tensor& weight_VD) {
  if (h_CD.scalar_type() != at::kBFloat16) return at::mm(h_CD, weight_VD.t());
  if (!h_CD.device().is_cpu()) return at::mm(h_CD, weight_VD.t(), at::kFloat);
  const at::Tensor wide_CD = h_CD.to(at::kFloat);
  const int64_t vocabulary = weight_VD.size(0);
  const at::Tensor logits_CV = at::empty({h_CD.size(0), vocabulary}, wide_CD.options());
  for (int64_t first = 0; first < vocabulary; first += kWidenedRows) {
    const int64_t rows = std::min(kWidenedRows, vocabulary - first);
    at::Tensor columns = logits_CV.narrow(1, first, rows);
    at::mm_out(columns, wide_CD, weight_VD.narrow(0, first, rows).to(at::kFloat).t());
  }
  return logits_CV;
}

at::Tensor scaledLogits(const at::Tensor& h_CD, const at::Tensor& weight_VD, double temperature) {
  at::Tensor logits_CV = logitsOf(h_CD, weight_VD.detach());
  return temperature == 1 ? logits_CV : logits_CV.div_(temperature);
}

}  // namespace

HeadResult headForward(const at::Tensor& h_ND, const at::Tensor& weight_VD,
                       const at::Tensor& targets_N, double temperature, bool slopes,
                       const Cancel& cancel) {
  const int64_t tokens = h_ND.size(0), chunk = chunkTokens(weight_VD.size(0));
  const auto wide =
      h_ND.options().dtype(h_ND.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  HeadResult result{at::empty({tokens}, wide), at::empty({tokens}, wide),
                    slopes ? at::empty_like(h_ND) : at::Tensor()};
  for (int64_t from = 0; from < tokens; from += chunk) {
    cancel.check();
    const int64_t count = std::min(chunk, tokens - from);
    const at::Tensor targets_C = targets_N.narrow(0, from, count);
    at::Tensor logits_CV = scaledLogits(h_ND.narrow(0, from, count), weight_VD, temperature);
    const at::Tensor logSum_C1 = at::logsumexp(logits_CV, {1}, true);
    logits_CV.sub_(logSum_C1);  // log-probs from here on
    result.logprobs_N.narrow(0, from, count)
        .copy_(logits_CV.gather(1, targets_C.unsqueeze(1)).squeeze(1));
    const at::Tensor probs_CV = logits_CV.exp();
    result.entropies_N.narrow(0, from, count).copy_(logits_CV.mul_(probs_CV).sum(1).neg_());
    if (!slopes) continue;
    at::Tensor slopes_CD = weight_VD.detach().index_select(0, targets_C);
    slopes_CD.addmm_(probs_CV.to(weight_VD.scalar_type()), weight_VD.detach(), 1 / temperature,
                     -1 / temperature);
    result.slopes_ND.narrow(0, from, count).copy_(slopes_CD);
  }
  return result;
}

at::Tensor headBackward(const at::Tensor& h_ND, const at::Tensor& weight_VD,
                        const at::Tensor& targets_N, double temperature,
                        const at::Tensor& dLogprobs_N, GradientSink& sink, const Cancel& cancel) {
  const int64_t tokens = h_ND.size(0), chunk = chunkTokens(weight_VD.size(0));
  const at::Tensor dh_ND = at::empty_like(h_ND);
  at::Tensor dWeight_VD = sink.buffer(weight_VD);
  for (int64_t from = 0; from < tokens; from += chunk) {
    cancel.check();
    const int64_t count = std::min(chunk, tokens - from);
    const at::Tensor h_CD = h_ND.narrow(0, from, count);
    // dlogp/dlogits = onehot - softmax.
    at::Tensor d_CV = at::softmax(scaledLogits(h_CD, weight_VD, temperature), 1);
    const at::Tensor slope_C1 =
        dLogprobs_N.narrow(0, from, count).to(d_CV.scalar_type()).unsqueeze(1) / temperature;
    d_CV.mul_(-slope_C1).scatter_add_(1, targets_N.narrow(0, from, count).unsqueeze(1), slope_C1);
    d_CV = d_CV.to(weight_VD.scalar_type());
    dWeight_VD.addmm_(d_CV.t(), h_CD);
    dh_ND.narrow(0, from, count).copy_(at::mm(d_CV, weight_VD.detach()));
  }
  return dh_ND;
}

}  // namespace acoer
