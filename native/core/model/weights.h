// How the named tensors of a file map to the fused tensors of `Weights`.
#pragma once

#include <functional>

#include "model/model.h"

namespace acoer {

// The tensor `name` is rows [row, row + rows) of `whole`.
struct WeightSlot {
  std::string name;
  at::Tensor whole;
  int64_t row = 0, rows = 0;
  at::Tensor view() const { return whole.narrow(0, row, rows); }
};

// One of the tensors of a layer. layerTensors() is the only list of those that a spec has: what is
// read, allocated, moved and trained follows from it.
struct LayerTensor {
  // One of these.
  Matrix LayerWeights::* matrix;
  at::Tensor LayerWeights::* vector;
  struct Part {
    const char* name;  // in files: model.layers.N.<name>
    int64_t rows;
  };
  std::vector<Part> parts;  // stacked along the rows
  int64_t columns = 0;      // of a matrix
};
std::vector<LayerTensor> layerTensors(const ModelSpec& spec);

// A tied head is left out. Matrices must be plain.
std::vector<WeightSlot> weightSlots(const ModelSpec& spec, const Weights& weights);

// Tensors of the spec's shapes, each made by `make`; a tied head is the embedding itself.
Weights makeWeights(const ModelSpec& spec, const std::function<at::Tensor(c10::IntArrayRef)>& make);
// Uninitialised.
Weights allocateWeights(const ModelSpec& spec, at::TensorOptions options);

// Replaces every matrix and every vector by what is returned for it; a tied head stays the
// embedding.
void changeWeights(const ModelSpec& spec, Weights& weights,
                   const std::function<Matrix(const Matrix&)>& matrix,
                   const std::function<at::Tensor(const at::Tensor&)>& vector);

}  // namespace acoer
