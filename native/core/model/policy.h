// What is trained: a LoRA adapter on a model or, for small models, a full copy of it, with
// gradients and AdamW state. Several policies share one base. The base without a policy is the
// reference.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "model/model.h"

namespace acoer {

// The seven linears that LoRA can adapt, in this order everywhere.
enum Target { kQ, kK, kV, kO, kGate, kUp, kDown, kNumTargets };
extern const std::array<const char*, kNumTargets> kTargetNames;  // "q_proj", ...

// An adapted linear: its pair has `rank`, and a scale that follows from alpha.
struct LoraMatrix {
  int64_t layer = 0;
  Target target = kQ;
  int64_t rank = 16;
  double alpha = 32;
};

// Part `index` of `count` of all trained numbers, laid end to end. Each of `count` processes keeps
// AdamW's moments of its own part only: the first stage of ZeRO (https://arxiv.org/abs/1910.02054).
struct Shard {
  int64_t index = 0, count = 1;
};

struct PolicyOptions {
  enum class Kind { kLora, kFull } kind = Kind::kLora;
  int64_t rank = 16;
  double alpha = 32;
  bool rankStabilized = false;  // rsLoRA (https://arxiv.org/abs/2312.03732)
  double dropout = 0;
  std::array<bool, kNumTargets> targets{};
  // What is adapted, in any order; empty: `targets` in every layer, all with `rank` and `alpha`.
  std::vector<LoraMatrix> matrices;
  uint64_t seed = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;  // AdamW
  Shard shard{};                                  // of a full policy
};

// One adapter pair: y += scale * (x A^T) B^T. Stored as fp32 (fp64 if the model is fp64).
struct LoraPair {
  at::Tensor a_RI;  // [r, in], Kaiming-uniform with a = sqrt(5)
  at::Tensor b_OR;  // [out, r], zero
  double scale = 0;
  bool defined() const { return a_RI.defined(); }
  int64_t rank() const { return a_RI.size(0); }
};

struct Parameter {
  std::string name;  // its name in PEFT's or Hugging Face's files
  at::Tensor value;  // rows [row, row + value.size(0)) of `leaf`, sharing its memory
  at::Tensor leaf;   // requires grad; a fused weight of a full policy holds several parameters
  int64_t row = 0;
  // Norms and biases do not decay, as in transformers' Trainer: all that are vectors.
  bool decays() const { return value.dim() > 1; }
  int64_t offset = 0;  // of its gradient in the policy's sums
  // The policy's shard has the numbers [ownBegin, ownEnd), counted through the rows: all of them
  // unless several processes train together.
  int64_t ownBegin = 0, ownEnd = 0;
  at::Tensor expAvg{}, expAvgSq{};  // of these numbers, as own() gives them

  bool isWhole() const { return ownEnd - ownBegin == value.numel(); }
  // The shard's numbers of `like`, a contiguous tensor of the parameter's shape: all of it as it
  // is, or a flat part of its memory.
  at::Tensor own(const at::Tensor& like) const;
};

// The gradients since the last step, summed (train/gradients.h).
struct GradientSums {
  at::Tensor flat;    // every parameter's gradient from its offset on; undefined: none
  at::Tensor host;    // what lendGradientSums() lends; undefined until it is called first
  bool lent = false;  // step() takes the gradients from `host`
};

struct Tape;  // what a forward pass keeps (forward.cpp)

struct Policy {
  std::shared_ptr<Model> model;
  PolicyOptions options;

  std::vector<std::array<LoraPair, kNumTargets>> lora;  // [layers]; empty for a full policy
  Weights full;                                         // leaves; empty for LoRA
  std::vector<Parameter> parameters;                    // views of the above, in file order
  int64_t stepCount = 0;                                // AdamW's t
  // Shard s has the numbers [shardOffsets[s], shardOffsets[s + 1]) of the parameters end to end.
  std::vector<int64_t> shardOffsets;
  GradientSums gradientSums;
  // What the last forward() kept for backward() (forward.h); null if nothing.
  std::shared_ptr<Tape> tape;

  bool isLora() const { return options.kind == PolicyOptions::Kind::kLora; }
  // The weights that a forward pass multiplies by: the base's for LoRA, its own for a full policy.
  const Weights& weights() const { return isLora() ? model->weights : full; }
};

// Throws kBadArgument for a value out of range, for a full policy on a model that is not fp32 or
// fp64, and for a shard of an adapter.
void checkPolicyOptions(const Model& model, const PolicyOptions& options);

// Throws what checkPolicyOptions throws.
std::shared_ptr<Policy> createPolicy(std::shared_ptr<Model> model, const PolicyOptions& options);

// A LoRA policy with the values of PEFT's tensors in `table`. Also throws what restorePolicy
// throws.
std::shared_ptr<Policy> loadAdapter(std::shared_ptr<Model> model, const PolicyOptions& options,
                                    const TensorTable& table);

// LoRA: adapter_model.safetensors (metadata format: pt). Full: model.safetensors in `dtype`. Writes
// to `path` directly: replacing a file atomically is up to the caller.
void savePolicy(const Policy& policy, const std::string& path,
                at::ScalarType dtype = at::ScalarType::Undefined);
// Writes exp_avg and exp_avg_sq of every parameter, and the step count. Throws kBadArgument for a
// policy with a shard of them.
void saveOptimizer(const Policy& policy, const std::string& path);
// Writes the same file for a policy with a shard, from the moments that were gathered in the memory
// of its gradients' sums (train/shards.h): first kExpAvg, which makes the file, then kExpAvgSq.
enum class Moment { kExpAvg, kExpAvgSq };
void saveMoment(const Policy& policy, const std::string& path, Moment moment);
// Both check every name, type and shape before changing anything, and reject tensors that the
// policy does not have. Throw kBadFile or kBadShape. restorePolicy drops the policy's tape
// (forward.h). restoreOptimizer keeps of the moments those of the policy's shard.
void restorePolicy(Policy& policy, const TensorTable& table);
void restoreOptimizer(Policy& policy, const TensorTable& table);

}  // namespace acoer
