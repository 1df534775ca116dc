// How the named tensors of a file lie in the fused tensors of `Weights`.
#pragma once

#include "model.h"

namespace acoer {

// The tensor `name` is rows [row, row + rows) of `whole`.
struct WeightSlot {
  std::string name;
  at::Tensor whole;
  int64_t row = 0, rows = 0;
  at::Tensor view() const { return whole.narrow(0, row, rows); }
};

// In Hugging Face's order; a tied head is left out.
std::vector<WeightSlot> weightSlots(const ModelConfig& config, const Weights& weights);

// Uninitialised tensors of the configuration's shapes; a tied head is the embedding itself.
Weights allocateWeights(const ModelConfig& config, at::TensorOptions options);

// Fills CPU weights from safetensors files that together hold every tensor exactly once.
void readWeights(const std::vector<std::string>& paths, const ModelConfig& config,
                 const Weights& weights, const Cancel& cancel);

void moveWeights(Weights& weights, at::Device device);

}  // namespace acoer
