// Random models held in memory, and the settings of the device checks.
#pragma once

#include <string>

#include "adamw.h"
#include "forward.h"
#include "generate.h"

namespace acoer::check {

// A small model that has every feature: grouped heads, head_dim not hidden / heads, tied head.
ModelSpec smallSpec();
// Qwen3-1.7B's true shape, with `layers` of its 28 layers.
ModelSpec qwen3Spec1p7B(int64_t layers);

// Normal weights (standard deviation `scale`) from `seed`, made on the CPU in float64 and cast, so
// that every device and type gets the same numbers up to rounding. Models over 1e8 parameters are
// made on the device.
std::shared_ptr<Model> randomModel(const ModelSpec& spec, at::Device device, at::ScalarType dtype,
                                   uint64_t seed, double scale = 0.06);

// An adapter on all seven linears whose B is not zero, the same values on every device.
std::shared_ptr<Policy> randomAdapter(std::shared_ptr<Model> model, uint64_t seed);

// Ragged prompts and completions of random ids.
PackedSequences randomSequences(const ModelSpec& spec, const std::vector<int64_t>& promptLengths,
                                const std::vector<int64_t>& completionLengths, uint64_t seed);

// What an on-policy loss gives backward(): for each sequence's tokens one number, over the number
// of completion tokens; of both signs.
std::vector<double> randomSlopes(const PackedSequences& sequences, uint64_t seed);

// forward() at temperature 1 without dropout, and backward().
ScoreResult addGradients(Policy& policy, const PackedSequences& sequences,
                         const std::vector<double>& slopes);

using NamedGradients = std::vector<std::pair<std::string, at::Tensor>>;
// The largest difference of two elements in the same place.
double largestGap(const NamedGradients& a, const NamedGradients& b);

}  // namespace acoer::check
