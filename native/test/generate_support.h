// Shared by the tests of generate().
#pragma once

#include <map>
#include <utility>

#include "check.h"
#include "device_models.h"
#include "generate/generate.h"

namespace acoer::check {

using SequenceKey = std::pair<int64_t, int64_t>;  // request, sample

struct Generated {
  std::map<SequenceKey, GeneratedSequence> sequences;
  GenerateStats stats;
};

// Runs generate() and collects every sequence; fails if one comes twice.
Generated collect(const Model& model, const std::vector<GenerateRequest>& requests,
                  GenerateOptions options = {}, DecodePath path = DecodePath::kAuto);

// One sample alone, as its own call.
GeneratedSequence alone(const Model& model, GenerateRequest request, int64_t sample,
                        DecodePath path = DecodePath::kAuto,
                        KvCacheDtype kept = KvCacheDtype::kAuto);
// Fails unless the tokens are the same, and log-probs and entropies are up to `bound`.
void checkSame(const GeneratedSequence& a, const GeneratedSequence& b, double bound);

// The shape of the embedded tiny model: hidden 96, 3 layers, 4 heads over 2, head_dim 32,
// vocabulary 64.
ModelSpec tinySpec();
// A random one on a CPU, all of whose products are our own: rows do not depend on each other.
std::shared_ptr<Model> tinyModel(at::ScalarType dtype, uint64_t seed);
// Gives an adapter's B numbers that change the output clearly.
void makeStrong(Policy& adapter, uint64_t seed);
// A LoRA policy whose A and B are large enough to change the output clearly.
std::shared_ptr<Policy> strongAdapter(std::shared_ptr<Model> model, uint64_t seed);
// A full policy whose weights differ from those of the base.
std::shared_ptr<Policy> changedCopy(std::shared_ptr<Model> model, uint64_t seed);

std::vector<int32_t> randomIds(const ModelSpec& spec, int64_t count, uint64_t seed);
GenerateRequest makeRequest(std::vector<int32_t> prompt, int64_t samples, int64_t newTokens,
                            const Policy* policy = nullptr);

// Hidden states after the final norm at every token, [T, D].
at::Tensor hiddenStates(const Model& model, const Policy* policy, const PackedSequences& batch);

// The largest and the mean |sampler log-prob - score()| over all sequences, and the largest
// difference of entropies.
struct ScoreGap {
  double logprob = 0;
  double meanLogprob = 0;
  double entropy = 0;
};
ScoreGap gapToScore(const Model& model, const std::vector<GenerateRequest>& requests,
                    const Generated& generated);

// P(chi-square with `degrees` degrees of freedom > value), by the Wilson-Hilferty approximation.
double chiSquareTail(double value, double degrees);

}  // namespace acoer::check
