// Adapters, full weights and optimiser state in safetensors files.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

#include "model/lora.h"
#include "model/policy.h"

namespace acoer {

namespace {

// Reads every named tensor before copying any of them, and rejects tensors that nothing asks for.
void readAll(const TensorTable& table, const NamedTensors& wanted) {
  const TensorReader reader(table);
  const Cancel never;
  std::vector<at::Tensor> read;
  std::set<std::string> known;
  for (const auto& [name, target] : wanted) {
    read.push_back(at::empty(target.sizes(), at::TensorOptions().dtype(target.scalar_type())));
    reader.read(name, read.back(), never);
    known.insert(name);
  }
  reader.checkNoOthers(known, "this policy");
  const at::NoGradGuard noGrad;
  for (size_t i = 0; i < wanted.size(); ++i) {
    at::Tensor target = wanted[i].second;
    target.copy_(read[i]);
  }
}

constexpr const char* kStepName = "step";

NamedTensors optimizerTensors(const Policy& policy) {
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    named.emplace_back("exp_avg." + p.name, p.expAvg);
    named.emplace_back("exp_avg_sq." + p.name, p.expAvgSq);
  }
  return named;
}

// Rejects files without the pairs that `options` asks for, before memory is taken for the pairs and
// their optimiser state.
void checkAdapter(const ModelSpec& spec, const PolicyOptions& options, const TensorTable& table) {
  const TensorReader reader(table);
  for (const LoraMatrix& matrix : loraMatrices(spec, options)) {
    const TargetShape shape = targetShape(spec, matrix.target);
    const std::string name = targetPath(matrix.layer, matrix.target);
    reader.check(name + ".lora_A.weight", {matrix.rank, shape.in}, at::kFloat);
    reader.check(name + ".lora_B.weight", {shape.out, matrix.rank}, at::kFloat);
  }
}

}  // namespace

std::shared_ptr<Policy> loadAdapter(std::shared_ptr<Model> model, const PolicyOptions& options,
                                    const TensorTable& table) {
  checkPolicyOptions(*model, options);
  checkAdapter(model->spec, options, table);
  auto policy = createPolicy(std::move(model), options);
  restorePolicy(*policy, table);
  return policy;
}

void savePolicy(const Policy& policy, const std::string& path, at::ScalarType dtype) {
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    named.emplace_back(p.name, dtype == at::ScalarType::Undefined ? p.value : p.value.to(dtype));
  }
  writeSafetensors(path, named);
}

void restorePolicy(Policy& policy, const TensorTable& table) {
  policy.tape.reset();
  NamedTensors named;
  for (const Parameter& p : policy.parameters) named.emplace_back(p.name, p.value);
  readAll(table, named);
}

void saveOptimizer(const Policy& policy, const std::string& path) {
  NamedTensors named = optimizerTensors(policy);
  named.emplace_back(kStepName, at::full({}, policy.stepCount, at::kLong));
  writeSafetensors(path, named);
}

void restoreOptimizer(Policy& policy, const TensorTable& table) {
  NamedTensors named = optimizerTensors(policy);
  const at::Tensor step = at::zeros({}, at::kLong);
  named.emplace_back(kStepName, step);
  readAll(table, named);
  const auto count = step.item<int64_t>();
  if (count < 0) {
    fail(ErrorCode::kBadFile, table.files.front().path, " has a negative step count");
  }
  policy.stepCount = count;
}

}  // namespace acoer
