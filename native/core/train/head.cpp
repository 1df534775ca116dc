#include "train/head.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "kernels/cpu/dispatch.h"
#include "matrix/small_products.h"
#include "ops/gpu_ops.h"
#include "ops/ops.h"

namespace acoer {

namespace {

// 64 MB of fp32 logits; chunks of fewer than 64 tokens would waste the matrix product.
constexpr int64_t kChunkElements = int64_t{1} << 24;
constexpr int64_t kMinChunkTokens = 64;

// On a GPU, whose products want more rows and whose memory takes them.
constexpr int64_t kGpuChunkTokens = 1024;

int64_t elementBytes(const Matrix& weight) {
  return static_cast<int64_t>(c10::elementSize(weight.type()));
}

// The chunk's logits in fp32 and the probabilities in the weight's type; on a GPU without CUDA
// kernels of our own also copies of the logits (libtorch holds up to three at a time).
int64_t logitBytesPerToken(const Matrix& weight_VD) {
  const int64_t copies = weight_VD.device().is_cpu() ? 1 : 3;
  return weight_VD.outputs() * (copies * int64_t{sizeof(float)} + elementBytes(weight_VD));
}

int64_t chunkTokens(const Matrix& weight_VD) {
  const at::Device device = weight_VD.device();
  if (device.is_cpu()) return std::max(kMinChunkTokens, kChunkElements / weight_VD.outputs());
  const int64_t fitting = availableBytes(device) / 2 / logitBytesPerToken(weight_VD);
  return std::clamp(fitting, kMinChunkTokens, kGpuChunkTokens);
}

// A bf16 product would round the logits in steps of up to 0.125, so they are computed in fp32, as
// in the sampler.
at::Tensor logitsOf(const at::Tensor& h_CD, const Matrix& weight_VD) {
  return weight_VD.forward(h_CD, h_CD.scalar_type() == at::kBFloat16);
}

// d(log-prob of the target)/dh: (W[target] - p W) / temperature.
at::Tensor slopesOf(const at::Tensor& probs_CV, const at::Tensor& targets_C,
                    const Matrix& weight_VD, double temperature) {
  const at::ScalarType sums = weight_VD.backwardType();
  at::Tensor slopes_CD = weight_VD.rows(targets_C).to(sums);
  if (sums == at::kBFloat16) {  // rounded once
    return at::addmm(slopes_CD, probs_CV, weight_VD.plain(), 1 / temperature, -1 / temperature);
  }
  weight_VD.backwardInto(slopes_CD.div_(temperature), probs_CV,
                         {.add = true, .scale = -1 / temperature});
  return slopes_CD;
}

at::Tensor scaled(at::Tensor logits_CV, double temperature) {
  return temperature == 1 ? logits_CV : logits_CV.div_(temperature);
}

template <class T>
void visitRows(const at::Tensor& logits_CV, const at::Tensor& targets_C, double temperature,
               const LogProbsTarget& to) {
  const int64_t V = logits_CV.size(1);
  T* logits = writePointer<T>(logits_CV);
  T *logprobs = writePointer<T>(to.logprobs_C), *entropies = writePointer<T>(to.entropies_C);
  const auto* targets = targets_C.const_data_ptr<int64_t>();
  const bool narrows = to.probs_CV.defined() && to.probs_CV.scalar_type() == at::kBFloat16;
  auto* narrowed = narrows ? writePointer<kernels::Bf16>(to.probs_CV) : nullptr;
  at::parallel_for(0, logits_CV.size(0), rowGrain(V), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      T* row = logits + c * V;
      const auto target = static_cast<double>(row[targets[c]]);
      const kernels::LogitSums<T> sums = kernels::mathKernels<T>().softmaxLogits(
          row, V, 1 / temperature, narrows ? narrowed + c * V : nullptr);
      const double logSum = std::log(sums.sum);
      logprobs[c] = static_cast<T>((target - sums.max) / temperature - logSum);
      entropies[c] = static_cast<T>(logSum - sums.weighted / sums.sum);
    }
  });
}

void visitByTensorOps(at::Tensor logits_CV, const at::Tensor& targets_C, double temperature,
                      LogProbsTarget& to) {
  logits_CV = scaled(logits_CV, temperature);
  const at::Tensor logSum_C1 = at::logsumexp(logits_CV, {1}, true);
  logits_CV.sub_(logSum_C1);  // log-probs from here on
  to.logprobs_C.copy_(logits_CV.gather(1, targets_C.unsqueeze(1)).squeeze(1));
  const at::Tensor probs_CV = logits_CV.exp();
  to.entropies_C.copy_(logits_CV.mul_(probs_CV).sum(1).neg_());
  if (to.probs_CV.defined()) to.probs_CV = probs_CV.to(to.probs_CV.scalar_type());
}

// Consumes the logits of a chunk: writes log-probs and entropies, and returns the probabilities in
// `type` if `wanted`.
at::Tensor visit(const GpuKernels* kernels, const at::Tensor& logits_CV, at::ScalarType type,
                 const at::Tensor& targets_C, double temperature, bool wanted,
                 const at::Tensor& logprobs_C, const at::Tensor& entropies_C) {
  LogProbsTarget to{logprobs_C, entropies_C, {}};
  if (wanted) {
    to.probs_CV = type == logits_CV.scalar_type()
                      ? logits_CV
                      : at::empty(logits_CV.sizes(), logits_CV.options().dtype(type));
  }
  if (gpuLogProbs(kernels, logits_CV, targets_C, temperature, to)) return to.probs_CV;
  if (logits_CV.is_cpu()) {
    withMathType(logits_CV, [&](auto number) {
      visitRows<decltype(number)>(logits_CV, targets_C, temperature, to);
    });
  } else {
    visitByTensorOps(logits_CV, targets_C, temperature, to);
  }
  return to.probs_CV;
}

}  // namespace

int64_t headBytes(int64_t tokens, const Matrix& weight_VD) {
  const int64_t chunk = weight_VD.device().is_cpu() ? chunkTokens(weight_VD) : kGpuChunkTokens;
  const int64_t kept = 3 * tokens * weight_VD.inputs() * elementBytes(weight_VD);
  return kept + std::min(tokens, chunk) * logitBytesPerToken(weight_VD);
}

HeadResult headForward(const GpuKernels* kernels, const at::Tensor& h_ND, const Matrix& weight_VD,
                       const at::Tensor& targets_N, double temperature, bool slopes,
                       const Cancel& cancel) {
  const int64_t tokens = h_ND.size(0), chunk = chunkTokens(weight_VD);
  const auto wide = h_ND.options().dtype(wideType(h_ND.scalar_type()));
  HeadResult result{at::empty({tokens}, wide), at::empty({tokens}, wide),
                    slopes ? at::empty_like(h_ND) : at::Tensor()};
  for (int64_t from = 0; from < tokens; from += chunk) {
    cancel.check();
    const int64_t count = std::min(chunk, tokens - from);
    const at::Tensor targets_C = targets_N.narrow(0, from, count);
    const at::Tensor probs_CV =
        visit(kernels, logitsOf(h_ND.narrow(0, from, count), weight_VD), weight_VD.type(),
              targets_C, temperature, slopes, result.logprobs_N.narrow(0, from, count),
              result.entropies_N.narrow(0, from, count));
    if (!slopes) continue;
    result.slopes_ND.narrow(0, from, count)
        .copy_(slopesOf(probs_CV, targets_C, weight_VD, temperature));
  }
  return result;
}

at::Tensor headBackward(const at::Tensor& h_ND, const Matrix& weight_VD,
                        const at::Tensor& targets_N, double temperature,
                        const at::Tensor& dLogprobs_N, GradientSink& sink, const Cancel& cancel) {
  const int64_t tokens = h_ND.size(0), chunk = chunkTokens(weight_VD);
  const at::Tensor dh_ND = at::empty_like(h_ND);
  at::Tensor dWeight_VD = sink.buffer(weight_VD.plain());
  for (int64_t from = 0; from < tokens; from += chunk) {
    cancel.check();
    const int64_t count = std::min(chunk, tokens - from);
    const at::Tensor h_CD = h_ND.narrow(0, from, count);
    // dlogp/dlogits = onehot - softmax.
    at::Tensor d_CV = at::softmax(scaled(logitsOf(h_CD, weight_VD), temperature), 1);
    const at::Tensor slope_C1 =
        dLogprobs_N.narrow(0, from, count).to(d_CV.scalar_type()).unsqueeze(1) / temperature;
    d_CV.mul_(-slope_C1).scatter_add_(1, targets_N.narrow(0, from, count).unsqueeze(1), slope_C1);
    d_CV = d_CV.to(weight_VD.type());
    // The library adds up in an order that depends on the threads, but makes no other copy of a
    // large gradient.
    if (hasSmallGradient(d_CV, h_CD)) {
      dWeight_VD.add_(smallWeightGradient(d_CV, h_CD));
    } else {
      dWeight_VD.addmm_(d_CV.t(), h_CD);
    }
    weight_VD.backwardInto(dh_ND.narrow(0, from, count), d_CV);
  }
  return dh_ND;
}

}  // namespace acoer
