// Adapters, full weights and optimiser state in safetensors files.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "json.h"
#include "lora.h"
#include "policy.h"
#include "safetensors.h"

namespace acoer {

namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Reads every named tensor before copying any, and refuses tensors that no name asks for.
void readAll(const std::string& path, const NamedTensors& wanted, const std::string& ignored) {
  const SafetensorsFile file(path);
  const Cancel never;
  std::vector<at::Tensor> read;
  for (const auto& [name, target] : wanted) {
    read.push_back(at::empty(target.sizes(), at::TensorOptions().dtype(target.scalar_type())));
    file.read(name, read.back(), never);
  }
  std::map<std::string, bool> known;
  for (const auto& [name, target] : wanted) known[name] = true;
  for (const auto& [name, entry] : file.entries()) {
    if (!known.count(name) && name != ignored) {
      fail(ErrorCode::kBadFile,
           path + " holds the tensor " + name + ", which this policy does not have");
    }
  }
  const at::NoGradGuard noGrad;
  for (size_t i = 0; i < wanted.size(); ++i) {
    at::Tensor target = wanted[i].second;
    target.copy_(read[i]);
  }
}

class AdapterConfig {
 public:
  explicit AdapterConfig(const std::string& path) : path_(path), root_(readJsonFile(path)) {}

  PolicyOptions read() const {
    refuseOthers();
    PolicyOptions options;
    const Json* rank = root_.find("r");
    if (!rank || !rank->asInt()) bad("lacks a whole number r");
    options.rank = *rank->asInt();
    const Json* alpha = root_.find("lora_alpha");
    if (!alpha || !alpha->number(options.alpha)) bad("lacks a number lora_alpha");
    if (const Json* dropout = root_.find("lora_dropout"); dropout && !dropout->isNull()) {
      if (!dropout->number(options.dropout)) bad("has a lora_dropout that is no number");
    }
    readTargets(options);
    return options;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kBadFile, path_ + " " + what);
  }

  // True for values that leave an option of PEFT off.
  static bool off(const Json& value) {
    if (value.isNull()) return true;
    if (const bool* flag = value.asBool()) return !*flag;
    if (const auto* object = value.asObject()) return object->empty();
    if (const auto* array = value.asArray()) return array->empty();
    return false;
  }

  void refuseOthers() const {
    if (!root_.asObject()) bad("is no JSON object");
    const Json* type = root_.find("peft_type");
    if (!type || !type->asString() || *type->asString() != "LORA") {
      bad("is of another peft_type than LORA");
    }
    if (const Json* bias = root_.find("bias"); bias && !bias->isNull()) {
      if (!bias->asString() || *bias->asString() != "none") bad("asks for bias; only none works");
    }
    for (const char* key :
         {"use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern",
          "layers_to_transform", "layers_pattern", "exclude_modules", "fan_in_fan_out", "lora_bias",
          "layer_replication", "target_parameters", "trainable_token_indices", "use_qalora",
          "alora_invocation_tokens"}) {
      const Json* value = root_.find(key);
      if (value && !off(*value)) {
        bad(std::string("uses ") + key + ", which this engine does not support");
      }
    }
  }

  void addTarget(PolicyOptions& options, const std::string& name) const {
    for (size_t t = 0; t < kNumTargets; ++t) {
      const std::string plain = kTargetNames[t];
      const std::string block = t <= kO ? "self_attn." : "mlp.";
      if (name == plain || name == block + plain) {
        options.targets[t] = true;
        return;
      }
    }
    bad("targets the module " + name + ", which is none of q_proj, k_proj, v_proj, o_proj, " +
        "gate_proj, up_proj, down_proj");
  }

  void readTargets(PolicyOptions& options) const {
    const Json* targets = root_.find("target_modules");
    if (targets && targets->asString()) {
      if (*targets->asString() != "all-linear") return addTarget(options, *targets->asString());
      options.targets.fill(true);
      return;
    }
    if (!targets || !targets->asArray()) bad("lacks a list target_modules");
    for (const Json& item : *targets->asArray()) {
      if (!item.asString()) bad("has a target_modules entry that is no text");
      addTarget(options, *item.asString());
    }
  }

  std::string path_;
  Json root_;
};

constexpr const char* kStepName = "step";

NamedTensors optimizerTensors(const Policy& policy) {
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    named.emplace_back("exp_avg." + p.name, p.expAvg);
    named.emplace_back("exp_avg_sq." + p.name, p.expAvgSq);
  }
  return named;
}

// Refuses a file without the pairs that `options` asks for, before memory is taken for them and for
// their optimiser state.
void checkAdapterFile(const ModelConfig& config, const PolicyOptions& options,
                      const std::string& path) {
  const SafetensorsFile file(path);
  for (int64_t layer = 0; layer < config.numLayers; ++layer) {
    for (int t = 0; t < kNumTargets; ++t) {
      if (!options.targets[static_cast<size_t>(t)]) continue;
      const auto target = static_cast<Target>(t);
      const TargetShape shape = targetShape(config, target);
      const std::string name = targetPath(layer, target);
      file.check(name + ".lora_A.weight", {options.rank, shape.in}, at::kFloat);
      file.check(name + ".lora_B.weight", {shape.out, options.rank}, at::kFloat);
    }
  }
}

}  // namespace

std::shared_ptr<Policy> loadAdapter(std::shared_ptr<Model> model, const std::string& directory) {
  const PolicyOptions options = AdapterConfig(directory + "/adapter_config.json").read();
  const std::string path = directory + "/adapter_model.safetensors";
  checkPolicyOptions(*model, options);
  checkAdapterFile(model->config, options, path);
  auto policy = createPolicy(std::move(model), options);
  restorePolicy(*policy, path);
  return policy;
}

void savePolicy(const Policy& policy, const std::string& path, at::ScalarType dtype) {
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    named.emplace_back(p.name, dtype == at::ScalarType::Undefined ? p.value : p.value.to(dtype));
  }
  writeSafetensors(path, named);
}

void restorePolicy(Policy& policy, const std::string& path) {
  policy.tape.reset();
  NamedTensors named;
  for (const Parameter& p : policy.parameters) named.emplace_back(p.name, p.value);
  const bool tied = !policy.isLora() && policy.model->config.tieWordEmbeddings;
  readAll(path, named, tied ? "lm_head.weight" : "");
  ++policy.version;
}

void saveOptimizer(const Policy& policy, const std::string& path) {
  NamedTensors named = optimizerTensors(policy);
  named.emplace_back(kStepName, at::full({}, policy.stepCount, at::kLong));
  writeSafetensors(path, named);
}

void restoreOptimizer(Policy& policy, const std::string& path) {
  NamedTensors named = optimizerTensors(policy);
  const at::Tensor step = at::zeros({}, at::kLong);
  named.emplace_back(kStepName, step);
  readAll(path, named, "");
  const auto count = step.item<int64_t>();
  if (count < 0) fail(ErrorCode::kBadFile, path + " has a negative step count");
  policy.stepCount = count;
}

}  // namespace acoer
