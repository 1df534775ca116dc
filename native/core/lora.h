// LoRA pairs: their shapes, names and initial values.
#pragma once

#include "policy.h"

namespace acoer {

struct TargetShape {
  int64_t out = 0, in = 0;
};
TargetShape targetShape(const ModelSpec& spec, Target target);

// PEFT's name without the ".lora_A.weight" tail, e.g.
// "base_model.model.model.layers.0.mlp.up_proj".
std::string targetPath(int64_t layer, Target target);

// A pair with PEFT's initial values: A uniform in [-1/sqrt(in), 1/sqrt(in)) (Kaiming with a =
// sqrt(5)), B zero. A depends on nothing but (seed, layer, target, element).
LoraPair makeLoraPair(const ModelSpec& spec, int64_t rank, uint64_t seed, int64_t layer,
                      Target target, at::TensorOptions options);

}  // namespace acoer
