#include "model/policy.h"

#include <ATen/ATen.h>

#include <algorithm>
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
  need(o.shard.count >= 1 && o.shard.index >= 0 && o.shard.index < o.shard.count,
       "a shard must be one of 0 to count - 1, not ", o.shard.index, " of ", o.shard.count);
  if (o.kind == PolicyOptions::Kind::kFull) {
    need(model.dtype == at::kFloat || model.dtype == at::kDouble,
         "training all weights needs a model loaded as float32 or float64, not ",
         c10::toString(model.dtype), "; load it as float32 or train a LoRA");
    need(model.quantization == Quantization::kNone,
         "weights that are quantised cannot be trained; load the model without quantization, or "
         "train a LoRA");
    return;
  }
  need(o.shard.count == 1, "an adapter's moments are small and not sharded");
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

at::Tensor Parameter::own(const at::Tensor& like) const {
  if (isWhole()) return like;
  return like.view({-1}).narrow(0, ownBegin, ownEnd - ownBegin);
}

namespace {

// Where a parameter may be cut. libtorch's AdamW computes whole vectors of up to 16 numbers, and in
// other code, which a compiler may round otherwise, what is left over at a tensor's end: with cuts
// at whole vectors no number goes from one to the other.
constexpr int64_t kCutNumbers = 64;

// [count + 1] where the shards begin, as even as whole vectors allow, and where the last one ends.
std::vector<int64_t> cutShards(const std::vector<Parameter>& parameters, int64_t count) {
  std::vector<int64_t> offsets{0};
  const int64_t total =
      parameters.empty() ? 0 : parameters.back().offset + parameters.back().value.numel();
  size_t i = 0;
  for (int64_t s = 1; s < count; ++s) {
    const int64_t even = total / count * s + total % count * s / count;
    while (i + 1 < parameters.size() && parameters[i + 1].offset <= even) ++i;
    const int64_t begin = parameters.empty() ? 0 : parameters[i].offset;
    offsets.push_back(begin + (even - begin) / kCutNumbers * kCutNumbers);
  }
  offsets.push_back(total);
  return offsets;
}

// Zero moments of the policy's shard.
void addMoments(Policy& policy) {
  int64_t offset = 0;
  for (Parameter& parameter : policy.parameters) {
    parameter.offset = offset;
    offset += parameter.value.numel();
  }
  const auto [index, count] = policy.options.shard;
  policy.shardOffsets = cutShards(policy.parameters, count);
  const int64_t begin = policy.shardOffsets[static_cast<size_t>(index)],
                end = policy.shardOffsets[static_cast<size_t>(index) + 1];
  for (Parameter& parameter : policy.parameters) {
    const int64_t numbers = parameter.value.numel();
    parameter.ownBegin = std::clamp(begin - parameter.offset, int64_t{0}, numbers);
    parameter.ownEnd = std::clamp(end - parameter.offset, int64_t{0}, numbers);
    const at::Tensor own = parameter.own(parameter.value);
    parameter.expAvg = at::zeros_like(own);
    parameter.expAvgSq = at::zeros_like(own);
  }
}

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
  addMoments(*policy);
  return policy;
}

}  // namespace acoer
