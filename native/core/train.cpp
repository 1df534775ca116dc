#include "train.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <cmath>

#include "head.h"
#include "layer.h"
#include "loss.h"
#include "memory.h"

namespace acoer {

namespace {

class TrainingPass {
 public:
  TrainingPass(Policy& policy, const TrainBatch& batch, int64_t keepBytes, const Cancel& cancel)
      : policy_(policy),
        cancel_(cancel),
        pass_(makeLayerPass(*policy.model, &policy, batch.sequences, batch.dropout)) {
    const auto layers = static_cast<int64_t>(pass_.weights.layers.size());
    keep_ = tapeBytes(pass_) * layers <= keepBytes;
  }

  HeadResult forward(double temperature) {
    temperature_ = temperature;
    at::Tensor x_TD = pass_.weights.embed_VD.detach().index_select(0, pass_.layout.ids_T);
    tapes_.resize(pass_.weights.layers.size());
    for (size_t layer = 0; layer < tapes_.size(); ++layer) {
      cancel_.check();
      tapes_[layer].x_TD = x_TD;
      x_TD = layerForward(pass_, layer, x_TD, keep_ ? &tapes_[layer] : nullptr);
    }
    last_ND_ = x_TD.index_select(0, pass_.layout.completion_N);
    hidden_ = rmsRotate(last_ND_, pass_.weights.finalNorm_D, config().rmsNormEps);
    HeadResult head = headForward(hidden_.y, pass_.weights.head_VD, pass_.layout.targets_N,
                                  temperature, policy_.isLora(), cancel_);
    slopes_ND_ = head.slopes_ND;
    return head;
  }

  void backward(const std::vector<double>& dLogprobs) {
    const at::Tensor d_N = at::tensor(dLogprobs, at::kDouble)
                               .to(policy_.model->device)
                               .to(hidden_.inverseRms.scalar_type());
    const at::Tensor dHidden_ND = headInputGradient(d_N);
    const bool full = !policy_.isLora();
    const at::Tensor dLast_ND = at::empty_like(last_ND_);
    rmsRotateBackward(dHidden_ND,
                      {last_ND_,
                       hidden_.inverseRms,
                       pass_.weights.finalNorm_D,
                       {},
                       full ? sink_.buffer(pass_.weights.finalNorm_D) : at::Tensor()},
                      {}, dLast_ND);
    at::Tensor dx_TD = at::zeros({pass_.layout.tokens, config().hiddenSize}, dLast_ND.options());
    dx_TD.index_copy_(0, pass_.layout.completion_N, dLast_ND);
    for (size_t layer = tapes_.size(); layer-- > 0;) {
      cancel_.check();
      LayerTape tape = std::move(tapes_[layer]);
      if (!keep_) layerRecompute(pass_, layer, tape.x_TD, tape);
      dx_TD = layerBackward(pass_, layer, tape, dx_TD, sink_);
    }
    if (full) {
      sink_.add(
          pass_.weights.embed_VD,
          at::embedding_dense_backward(dx_TD, pass_.layout.ids_T, config().vocabSize, -1, false));
    }
    sink_.commit();
  }

 private:
  const ModelConfig& config() const { return pass_.model.config; }

  at::Tensor headInputGradient(const at::Tensor& d_N) {
    if (policy_.isLora()) return slopes_ND_ * d_N.to(slopes_ND_.scalar_type()).unsqueeze(1);
    return headBackward(hidden_.y, pass_.weights.head_VD, pass_.layout.targets_N, temperature_, d_N,
                        sink_, cancel_);
  }

  Policy& policy_;
  const Cancel& cancel_;
  LayerPass pass_;
  bool keep_ = false;
  double temperature_ = 1;
  std::vector<LayerTape> tapes_;
  at::Tensor last_ND_;  // residual stream at the completion rows
  Normed hidden_;
  at::Tensor slopes_ND_;
  GradientSink sink_;
};

std::vector<double> toDoubles(const at::Tensor& x_N) {
  const at::Tensor flat = x_N.to(at::kCPU, at::kDouble).contiguous();
  const auto* from = flat.data_ptr<double>();
  return {from, from + flat.numel()};
}

// Names the first sequence with a log-prob or a derivative that is not finite.
void checkFinite(const TrainBatch& batch, const std::vector<double>& values, const char* what) {
  size_t t = 0;
  for (size_t b = 0; b < batch.sequences.promptLengths.size(); ++b) {
    const int64_t tokens = batch.sequences.offsets[b + 1] - batch.sequences.offsets[b] -
                           batch.sequences.promptLengths[b];
    for (int64_t i = 0; i < tokens; ++i, ++t) {
      if (std::isfinite(values[t])) continue;
      fail(ErrorCode::kNotFinite, std::string(what) + " of completion token " + std::to_string(i) +
                                      " of sequence " + std::to_string(b) + " is not finite");
    }
  }
}

bool anyNonZero(const std::vector<double>& values) {
  for (const double value : values) {
    if (value != 0) return true;
  }
  return false;
}

}  // namespace

namespace {

AccumulateResult accumulateKeeping(int64_t keepBytes, Policy& policy, const TrainBatch& batch,
                                   const LossSettings& settings, const Cancel& cancel) {
  checkSequences(batch.sequences, policy.model->config);
  checkLossInputs(batch, settings);
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  AccumulateResult result;
  std::optional<TrainingPass> pass;
  if (!batch.mask.empty()) {
    pass.emplace(policy, batch, keepBytes, cancel);
    const HeadResult head = pass->forward(settings.temperature);
    result.logprobs = toDoubles(head.logprobs_N);
    result.entropies = toDoubles(head.entropies_N);
    checkFinite(batch, result.logprobs, "the log-prob");
  }
  LossResult loss = computeLoss(batch, settings, result.logprobs);
  if (!std::isfinite(loss.loss)) fail(ErrorCode::kNotFinite, "the loss is not finite");
  checkFinite(batch, loss.slopes, "the loss's derivative at the log-prob");
  if (anyNonZero(loss.slopes)) pass->backward(loss.slopes);
  result.loss = loss.loss;
  result.klSum = loss.klSum;
  for (size_t t = 0; t < batch.mask.size(); ++t) {
    if (!batch.mask[t]) continue;
    result.tokens += 1;
    result.entropySum += result.entropies[t];
  }
  result.clippedLow = std::move(loss.clippedLow);
  result.clippedHigh = std::move(loss.clippedHigh);
  result.vespoPhi = std::move(loss.vespoPhi);
  return result;
}

}  // namespace

AccumulateResult accumulate(Policy& policy, const TrainBatch& batch, const LossSettings& settings,
                            const Cancel& cancel, int64_t keepBytes) {
  try {
    return accumulateKeeping(keepBytes, policy, batch, settings, cancel);
  } catch (...) {
    // A caller can cut several sequences apart; of one, only less can be kept.
    if (batch.sequences.count() != 1 || keepBytes == 0 || !handlingOutOfMemory()) throw;
  }
  releaseFreedMemory(policy.model->device);
  return accumulateKeeping(0, policy, batch, settings, cancel);
}

}  // namespace acoer
