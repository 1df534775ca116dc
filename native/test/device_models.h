// Random models in memory, and what the device checks need besides.
#pragma once

#include <string>

#include "generate/generate.h"
#include "train/adamw.h"
#include "train/forward.h"

namespace acoer::check {

// A small model with every feature: grouped heads, a head_dim that is not hidden / heads, a tied
// head.
ModelSpec smallSpec();
// The same as other families compute it: Qwen2 (biases of q, k and v, heads without norms), Llama 3
// (heads without norms, its scaling of rotary embeddings), Qwen3 with YaRN.
ModelSpec qwen2Spec();
ModelSpec llama3Spec();
ModelSpec yarnSpec();
// The true shape of Qwen3-1.7B, with `layers` of its 28 layers.
ModelSpec qwen3Spec1p7B(int64_t layers);

// Normal weights (standard deviation `scale`) from `seed`, made on the CPU in float64 and cast, so
// that every device and type gets the same numbers up to rounding. Models with an embedding of more
// than 1e8 weights are made on the device.
std::shared_ptr<Model> randomModel(const ModelSpec& spec, at::Device device, at::ScalarType dtype,
                                   uint64_t seed, double scale = 0.06);

// The same model with the matrices of its layers quantised, as loadModel() does it.
void quantise(Model& model, Quantization quantization);

// An adapter on all seven linears with a nonzero B, the same on every device.
std::shared_ptr<Policy> randomAdapter(std::shared_ptr<Model> model, uint64_t seed);

// Ragged prompts and completions of random ids.
PackedSequences randomSequences(const ModelSpec& spec, const std::vector<int64_t>& promptLengths,
                                const std::vector<int64_t>& completionLengths, uint64_t seed);

// Slopes like those of an on-policy loss: one number per sequence, the same for all its tokens,
// divided by the number of completion tokens; of both signs.
std::vector<double> randomSlopes(const PackedSequences& sequences, uint64_t seed);

// Calls forward(), at temperature 1 without dropout, and backward().
ScoreResult addGradients(Policy& policy, const PackedSequences& sequences,
                         const std::vector<double>& slopes);

using NamedGradients = std::vector<std::pair<std::string, at::Tensor>>;
// The largest difference between corresponding elements.
double largestGap(const NamedGradients& a, const NamedGradients& b);

}  // namespace acoer::check
