#include "forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <cmath>

#include "head.h"
#include "layer.h"

namespace acoer {

namespace {

// The residual stream after the last layer, [T, D], before the final norm.
at::Tensor runLayers(const LayerPass& pass, const Cancel& cancel) {
  at::Tensor x_TD = pass.weights.embed_VD.detach().index_select(0, pass.layout.ids_T);
  for (size_t layer = 0; layer < pass.weights.layers.size(); ++layer) {
    cancel.check();
    x_TD = layerForward(pass, layer, x_TD, nullptr);
  }
  return x_TD;
}

void checkOwner(const Model& model, const Policy* policy) {
  if (policy && policy->model.get() != &model) {
    fail(ErrorCode::kBadArgument, "the policy belongs to another model");
  }
}

std::vector<double> toDoubles(const at::Tensor& x_N) {
  const at::Tensor flat = x_N.to(at::kCPU, at::kDouble).contiguous();
  const auto* from = flat.data_ptr<double>();
  return {from, from + flat.numel()};
}

}  // namespace

at::Tensor forwardHidden(const Model& model, const Policy* policy, const PackedSequences& batch,
                         const std::optional<DropoutKey>& dropout, const Cancel& cancel) {
  checkOwner(model, policy);
  checkSequences(batch, model.config);
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(model.device);
  const LayerPass pass = makeLayerPass(model, policy, batch, dropout);
  return rmsNorm(runLayers(pass, cancel), pass.weights.finalNorm_D, model.config.rmsNormEps);
}

ScoreResult score(const Model& model, const Policy* policy, const PackedSequences& batch,
                  double temperature, const Cancel& cancel) {
  checkOwner(model, policy);
  checkSequences(batch, model.config);
  if (!std::isfinite(temperature) || temperature <= 0) {
    fail(ErrorCode::kBadArgument, "the temperature of log-probs must be positive");
  }
  if (batch.completionTokens() == 0) return {};
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(model.device);
  const LayerPass pass = makeLayerPass(model, policy, batch, std::nullopt);
  const at::Tensor h_ND =
      rmsRotate(runLayers(pass, cancel).index_select(0, pass.layout.completion_N),
                pass.weights.finalNorm_D, model.config.rmsNormEps)
          .y;
  const HeadResult head =
      headForward(h_ND, pass.weights.head_VD, pass.layout.targets_N, temperature, false, cancel);
  return {toDoubles(head.logprobs_N), toDoubles(head.entropies_N)};
}

}  // namespace acoer
