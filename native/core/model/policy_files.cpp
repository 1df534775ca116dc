// Adapters, full weights and optimiser state in safetensors files.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

#include "model/lora.h"
#include "model/policy.h"

namespace acoer {

namespace {

// A tensor to fill from a file.
struct Wanted {
  std::string name;
  at::Tensor target;
  // Of what the file has, in the shape of its value, only own() is the target; null: all of it.
  const Parameter* sharded = nullptr;
};

at::Tensor readOne(const TensorReader& reader, const Wanted& wanted) {
  const Cancel never;
  const auto type = at::TensorOptions().dtype(wanted.target.scalar_type());
  const bool part = wanted.sharded != nullptr && !wanted.sharded->isWhole();
  at::Tensor read = at::empty(part ? wanted.sharded->value.sizes() : wanted.target.sizes(), type);
  reader.read(wanted.name, read, never);
  // A copy, so that no more than one tensor at a time is in memory as a whole.
  return part ? wanted.sharded->own(read).clone() : read;
}

// Reads every wanted tensor before copying any of them, and rejects tensors that nothing asks for.
void readAll(const TensorTable& table, const std::vector<Wanted>& wanted) {
  const TensorReader reader(table);
  std::vector<at::Tensor> read;
  std::set<std::string> known;
  for (const Wanted& one : wanted) {
    read.push_back(readOne(reader, one));
    known.insert(one.name);
  }
  reader.checkNoOthers(known, "this policy");
  const at::NoGradGuard noGrad;
  for (size_t i = 0; i < wanted.size(); ++i) {
    at::Tensor target = wanted[i].target;
    target.copy_(read[i]);
  }
}

constexpr const char* kStepName = "step";

std::string momentName(const Parameter& p, Moment moment) {
  return (moment == Moment::kExpAvg ? "exp_avg." : "exp_avg_sq.") + p.name;
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
  std::vector<Wanted> wanted;
  for (const Parameter& p : policy.parameters) wanted.push_back({p.name, p.value});
  readAll(table, wanted);
}

void saveOptimizer(const Policy& policy, const std::string& path) {
  if (policy.options.shard.count > 1) {
    fail(ErrorCode::kBadArgument,
         "the policy has a shard of AdamW's moments; gather those of all shards to save them");
  }
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    named.emplace_back(momentName(p, Moment::kExpAvg), p.expAvg);
    named.emplace_back(momentName(p, Moment::kExpAvgSq), p.expAvgSq);
  }
  named.emplace_back(kStepName, at::full({}, policy.stepCount, at::kLong));
  writeSafetensors(path, named);
}

void saveMoment(const Policy& policy, const std::string& path, Moment moment) {
  const at::Tensor& gathered = policy.gradientSums.host;
  if (!gathered.defined()) {
    fail(ErrorCode::kBadArgument, "no moments were gathered in the sums of the gradients");
  }
  const bool first = moment == Moment::kExpAvg;
  NamedTensors named;
  for (const Parameter& p : policy.parameters) {
    for (const Moment each : {Moment::kExpAvg, Moment::kExpAvgSq}) {
      const auto type = at::device(at::kMeta).dtype(p.value.scalar_type());
      named.emplace_back(momentName(p, each), each != moment
                                                  ? at::empty(p.value.sizes(), type)
                                                  : gathered.narrow(0, p.offset, p.value.numel())
                                                        .view(p.value.sizes())
                                                        .to(p.value.scalar_type()));
    }
  }
  const at::Tensor step = at::full({}, policy.stepCount, at::kLong);
  named.emplace_back(kStepName, first ? step : at::empty_like(step, at::device(at::kMeta)));
  writeSafetensors(path, named, first);
}

void restoreOptimizer(Policy& policy, const TensorTable& table) {
  std::vector<Wanted> wanted;
  for (const Parameter& p : policy.parameters) {
    wanted.push_back({momentName(p, Moment::kExpAvg), p.expAvg, &p});
    wanted.push_back({momentName(p, Moment::kExpAvgSq), p.expAvgSq, &p});
  }
  const at::Tensor step = at::zeros({}, at::kLong);
  wanted.push_back({kStepName, step});
  readAll(table, wanted);
  const auto count = step.item<int64_t>();
  if (count < 0) {
    fail(ErrorCode::kBadFile, table.files.front().path, " has a negative step count");
  }
  policy.stepCount = count;
}

}  // namespace acoer
