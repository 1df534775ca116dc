// LoRA pairs: their shapes, names and initial values, and which matrices they adapt.
#pragma once

#include "model/policy.h"

namespace acoer {

struct TargetShape {
  int64_t out = 0, in = 0;
};
TargetShape targetShape(const ModelSpec& spec, Target target);

// The matrices of a layer, each with the targets whose rows it stacks, in order.
struct FusedMatrix {
  Matrix LayerWeights::* weights;
  Target first, last;
};
inline constexpr FusedMatrix kFusedQkv{&LayerWeights::qkv_ED, kQ, kV};
inline constexpr FusedMatrix kFusedO{&LayerWeights::o_DHK, kO, kO};
inline constexpr FusedMatrix kFusedGateUp{&LayerWeights::gateUp_2FD, kGate, kUp};
inline constexpr FusedMatrix kFusedDown{&LayerWeights::down_DF, kDown, kDown};
inline constexpr std::array kFusedMatrices{kFusedQkv, kFusedO, kFusedGateUp, kFusedDown};

// A pair, and the rows of a fused matrix (columns of its product) that it adapts.
struct AdaptedRows {
  const LoraPair* pair;
  Target target;
  int64_t first = 0, rows = 0;
};
// All of a layer's matrix, in order: what training, decoding and merging go by.
std::vector<AdaptedRows> adaptedRows(const Policy& policy, size_t layer, const FusedMatrix& fused);

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
