// A frozen dense Qwen3: its configuration and its weights.
//
// Shape letters used everywhere in native/core:
//   T tokens of a packed batch   B sequences       L longest sequence of a batch   S decode slots
//   D hidden   F intermediate    H heads           J key/value heads               K head_dim
//   V vocabulary                 E = (H + 2J) * K rows of the fused q|k|v projection    R LoRA rank
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cancel.h"

namespace acoer {

struct ModelConfig {
  int64_t vocabSize = 0;
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t numLayers = 0;
  int64_t numHeads = 0;
  int64_t numKvHeads = 0;
  int64_t headDim = 0;
  int64_t maxPositions = 0;
  double rmsNormEps = 1e-6;
  double ropeTheta = 1e6;
  bool tieWordEmbeddings = false;
  at::ScalarType storedDtype = at::kFloat;  // `torch_dtype` / `dtype` of config.json

  int64_t qRows() const { return numHeads * headDim; }
  int64_t kvRows() const { return numKvHeads * headDim; }
  int64_t qkvRows() const { return qRows() + 2 * kvRows(); }
};

// q|k|v and gate|up are stored fused (one GEMM each); LoRA and files address them by row ranges.
struct LayerWeights {
  at::Tensor inputNorm_D;
  at::Tensor qkv_ED;
  at::Tensor qNorm_K;
  at::Tensor kNorm_K;
  at::Tensor o_DHK;  // [D, H*K]
  at::Tensor postNorm_D;
  at::Tensor gateUp_2FD;
  at::Tensor down_DF;
};

struct Weights {
  at::Tensor embed_VD;
  at::Tensor head_VD;  // the same tensor as embed_VD when tied
  at::Tensor finalNorm_D;
  std::vector<LayerWeights> layers;
};

struct Model {
  ModelConfig config;
  Weights weights;
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  int64_t parameterCount = 0;
  int64_t bytes = 0;
};

struct LoadModelOptions {
  std::string directory;
  at::Device device = at::kCPU;
  // Undefined: the type config.json names. Float16, stored or asked for, is computed in float32.
  at::ScalarType dtype = at::ScalarType::Undefined;
};

// Reads config.json and model.safetensors (or the shards of model.safetensors.index.json) into
// memory of its own: the files may change or go afterwards.
// Throws kBadFile / kBadShape naming the file and tensor.
std::shared_ptr<Model> loadModel(const LoadModelOptions& options, const Cancel& cancel);

// Parses config.json, in the hub's form (rope_theta, torch_dtype) and transformers 5's
// (rope_parameters, dtype). Refuses by name what this engine does not compute: other
// architectures, rope scaling, sliding windows, attention bias.
ModelConfig readModelConfig(const std::string& directory);

// The name and the view of every parameter in Hugging Face's naming and order; fused tensors come
// back as row views, a tied head is left out.
std::vector<std::pair<std::string, at::Tensor>> namedWeights(const ModelConfig& config,
                                                             const Weights& weights);

}  // namespace acoer
