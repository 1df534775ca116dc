// LoRA pairs: their shapes, names and initial values.
#pragma once

#include "model/policy.h"

namespace acoer {

struct TargetShape {
  int64_t out = 0, in = 0;
};
TargetShape targetShape(const ModelSpec& spec, Target target);

// PEFT's name without the ".lora_A.weight" tail, e.g.
// "base_model.model.model.layers.0.mlp.up_proj".
std::string targetPath(int64_t layer, Target target);

// All that `options` adapts, by layer and target.
std::vector<LoraMatrix> loraMatrices(const ModelSpec& spec, const PolicyOptions& options);

// A pair with PEFT's initial values: A uniform in [-1/sqrt(in), 1/sqrt(in)) (Kaiming with a =
// sqrt(5)), B zero. A depends on nothing but (seed, layer, target, element).
LoraPair makeLoraPair(const ModelSpec& spec, const LoraMatrix& matrix, const PolicyOptions& options,
                      at::TensorOptions tensorOptions);

}  // namespace acoer
