#include "model/policy.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>

#include "model/lora.h"
#include "model/weights.h"

namespace acoer {

void checkPolicyOptions(const Model& model, const PolicyOptions& o) {
  const auto need = [](bool good, const auto&... what) {
    if (!good) fail(ErrorCode::kBadArgument, what...);
  };
  const auto share = [](double x) { return x >= 0 && x < 1; };
  need(share(o.beta1) && share(o.beta2), "AdamW's beta1 and beta2 must be at least 0 and below 1");
  need(std::isfinite(o.eps) && o.eps > 0, "AdamW's eps must be above 0");
  if (o.kind == PolicyOptions::Kind::kFull) {
    need(model.dtype == at::kFloat || model.dtype == at::kDouble,
         "training all weights needs a model loaded as float32 or float64, not ",
         c10::toString(model.dtype), "; load it as float32 or train a LoRA");
    return;
  }
  need(share(o.dropout), "the LoRA dropout must be at least 0 and below 1");
  const auto needShape = [&](int64_t rank, double alpha) {
    need(rank >= 1 && rank <= 4096, "the LoRA rank must be between 1 and 4096, not ", rank);
    need(std::isfinite(alpha) && alpha > 0, "LoRA's alpha must be a positive number");
  };
  needShape(o.rank, o.alpha);
  std::set<std::pair<int64_t, Target>> known;
  for (const LoraMatrix& m : o.matrices) {
    need(m.layer >= 0 && m.layer < model.spec.numLayers, "a LoRA adapts layer ", m.layer,
         ", but the model has layers 0 to ", model.spec.numLayers - 1);
    needShape(m.rank, m.alpha);
    need(known.emplace(m.layer, m.target).second, "a LoRA adapts ", targetPath(m.layer, m.target),
         " twice");
  }
  bool any = !o.matrices.empty();
  for (const bool target : o.targets) any = any || target;
  need(any, "a LoRA policy needs at least one target module");
}

namespace {

void addLoraParameters(Policy& policy) {
  const Model& model = *policy.model;
  const auto options = at::TensorOptions()
                           .dtype(model.dtype == at::kDouble ? at::kDouble : at::kFloat)
                           .device(model.device);
  policy.lora.resize(static_cast<size_t>(model.spec.numLayers));
  for (const LoraMatrix& matrix : loraMatrices(model.spec, policy.options)) {
    LoraPair& pair = policy.lora[static_cast<size_t>(matrix.layer)][matrix.target];
    pair = makeLoraPair(model.spec, matrix, policy.options, options);
    const std::string path = targetPath(matrix.layer, matrix.target);
    for (const auto& [tensor, tail] :
         {std::pair(&pair.a_RI, ".lora_A.weight"), std::pair(&pair.b_OR, ".lora_B.weight")}) {
      tensor->requires_grad_(true);
      policy.parameters.push_back(
          {.name = path + tail, .value = tensor->detach(), .leaf = *tensor});
    }
  }
}

void addFullParameters(Policy& policy) {
  const Model& model = *policy.model;
  const auto options = at::TensorOptions().dtype(model.dtype).device(model.device);
  policy.full = allocateWeights(model.spec, options);
  const auto from = weightSlots(model.spec, model.weights);
  const auto to = weightSlots(model.spec, policy.full);
  for (size_t i = 0; i < to.size(); ++i) {
    to[i].view().copy_(from[i].view());
    policy.parameters.push_back(
        {.name = to[i].name, .value = to[i].view(), .leaf = to[i].whole, .row = to[i].row});
  }
  // After the views are made, so that they are not part of any graph.
  for (Parameter& parameter : policy.parameters) {
    parameter.value = parameter.value.detach();
    parameter.leaf.requires_grad_(true);
  }
}

}  // namespace

std::shared_ptr<Policy> createPolicy(std::shared_ptr<Model> model, const PolicyOptions& options) {
  checkPolicyOptions(*model, options);
  auto policy = std::make_shared<Policy>();
  policy->model = std::move(model);
  policy->options = options;
  if (policy->isLora()) {
    addLoraParameters(*policy);
  } else {
    addFullParameters(*policy);
  }
  int64_t offset = 0;
  for (Parameter& parameter : policy->parameters) {
    parameter.expAvg = at::zeros_like(parameter.value);
    parameter.expAvgSq = at::zeros_like(parameter.value);
    parameter.offset = offset;
    offset += parameter.value.numel();
  }
  return policy;
}

}  // namespace acoer
