#include "generate_support.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <random>

#include "emulated_gpu.h"
#include "model/weights.h"
#include "ops/ops.h"
#include "train/layer.h"

namespace acoer::check {

Generated collect(const Model& model, const std::vector<GenerateRequest>& requests,
                  GenerateOptions options, DecodePath path) {
  options.path = path;
  Generated result;
  const Cancel cancel;
  result.stats = generate(
      model, requests, options,
      [&](GeneratedSequence&& sequence) {
        const SequenceKey key{sequence.request, sequence.sample};
        ACOER_CHECK(result.sequences.emplace(key, std::move(sequence)).second);
      },
      cancel);
  size_t expected = 0;
  for (const auto& request : requests) expected += static_cast<size_t>(request.numSamples);
  ACOER_CHECK(result.sequences.size() == expected);
  return result;
}

GeneratedSequence alone(const Model& model, GenerateRequest request, int64_t sample,
                        DecodePath path, KvCacheDtype kept) {
  request.firstSample += sample;
  request.numSamples = 1;
  return collect(model, {request}, {.kvCacheDtype = kept}, path).sequences.at({0, 0});
}

void checkSame(const GeneratedSequence& a, const GeneratedSequence& b, double bound) {
  ACOER_CHECK(a.ids == b.ids);
  ACOER_CHECK(a.finish == b.finish);
  for (size_t t = 0; t < a.ids.size(); ++t) {
    ACOER_CHECK_LE(std::abs(a.logprobs[t] - b.logprobs[t]), bound);
    ACOER_CHECK_LE(std::abs(a.entropies[t] - b.entropies[t]), bound);
  }
}

ModelSpec tinySpec() {
  ModelSpec spec;
  spec.vocabSize = 64;
  spec.hiddenSize = 96;
  spec.intermediateSize = 256;
  spec.numLayers = 3;
  spec.numHeads = 4;
  spec.numKvHeads = 2;
  spec.headDim = kernelsOnCpu() == nullptr ? 32 : 64;  // the CUDA kernels have none for 32
  spec.maxPositions = 2048;
  spec.ropeTheta = 1e4;
  spec.tieWordEmbeddings = true;
  return spec;
}

std::shared_ptr<Model> tinyModel(at::ScalarType dtype, uint64_t seed) {
  const auto model = randomModel(tinySpec(), at::kCPU, dtype, seed);
  if (dtype == at::kBFloat16) {
    changeWeights(
        model->spec, model->weights,
        [](const Matrix& w) { return Matrix::ofModel(w.plain(), at::kCPU); },
        [](const at::Tensor& vector) { return vector; });
  }
  return model;
}

void makeStrong(Policy& adapter, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const c10::NoGradGuard noGrad;
  for (auto& layer : adapter.lora) {
    for (auto& pair : layer) {
      if (!pair.defined()) continue;
      pair.b_OR.copy_(at::randn(pair.b_OR.sizes(), generator, at::dtype(at::kDouble)) * 0.1);
    }
  }
}

std::shared_ptr<Policy> strongAdapter(std::shared_ptr<Model> model, uint64_t seed) {
  PolicyOptions options;
  options.targets.fill(true);
  options.seed = seed;
  auto policy = createPolicy(std::move(model), options);
  makeStrong(*policy, seed);
  return policy;
}

std::shared_ptr<Policy> changedCopy(std::shared_ptr<Model> model, uint64_t seed) {
  PolicyOptions options;
  options.kind = PolicyOptions::Kind::kFull;
  auto policy = createPolicy(std::move(model), options);
  auto generator = at::detail::createCPUGenerator(seed);
  const c10::NoGradGuard noGrad;
  for (auto& parameter : policy->parameters) {
    const at::Tensor change =
        at::randn(parameter.value.sizes(), generator, at::dtype(at::kDouble)) * 0.02;
    parameter.value.add_(change.to(parameter.value.options()));
  }
  return policy;
}

std::vector<int32_t> randomIds(const ModelSpec& spec, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < count; ++t) {
    ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(spec.vocabSize)));
  }
  return ids;
}

GenerateRequest makeRequest(std::vector<int32_t> prompt, int64_t samples, int64_t newTokens,
                            const Policy* policy) {
  GenerateRequest request;
  request.promptIds = std::move(prompt);
  request.numSamples = samples;
  request.maxNewTokens = newTokens;
  request.policy = policy;
  request.seed = 42;
  return request;
}

at::Tensor hiddenStates(const Model& model, const Policy* policy, const PackedSequences& batch) {
  const at::NoGradGuard noGrad;
  const LayerPass pass =
      makeLayerPass(model, policy, passWeights(model, policy, std::nullopt), batch, std::nullopt);
  at::Tensor x_TD = pass.weights.embed_VD.rows(pass.layout.ids_T);
  for (size_t layer = 0; layer < pass.weights.layers.size(); ++layer) {
    x_TD = layerForward(pass, layer, x_TD, nullptr);
  }
  return rmsRotateByTensorOps(x_TD, pass.weights.finalNorm_D, model.spec.rmsNormEps, {}).y;
}

ScoreGap gapToScore(const Model& model, const std::vector<GenerateRequest>& requests,
                    const Generated& generated) {
  ScoreGap gap;
  double tokens = 0;
  const Cancel cancel;
  for (const auto& [key, sequence] : generated.sequences) {
    const GenerateRequest& request = requests[static_cast<size_t>(key.first)];
    PackedSequences packed;
    packed.ids = request.promptIds;
    packed.ids.insert(packed.ids.end(), sequence.ids.begin(), sequence.ids.end());
    packed.offsets = {0, static_cast<int64_t>(packed.ids.size())};
    packed.promptLengths = {static_cast<int64_t>(request.promptIds.size())};
    const double temperature = request.sampling.temperature == 0 ? 1 : request.sampling.temperature;
    const ScoreResult scored = score(model, request.policy, packed, temperature, cancel);
    ACOER_CHECK(scored.logprobs.size() == sequence.ids.size());
    ACOER_CHECK(sequence.logprobs.size() == sequence.ids.size());
    ACOER_CHECK(sequence.entropies.size() == sequence.ids.size());
    for (size_t t = 0; t < sequence.ids.size(); ++t) {
      const double difference = std::abs(scored.logprobs[t] - sequence.logprobs[t]);
      ACOER_CHECK(std::isfinite(difference));
      gap.logprob = std::max(gap.logprob, difference);
      gap.meanLogprob += difference;
      gap.entropy = std::max(gap.entropy, std::abs(scored.entropies[t] - sequence.entropies[t]));
      tokens += 1;
    }
  }
  gap.meanLogprob /= tokens;
  return gap;
}

double chiSquareTail(double value, double degrees) {
  const double spread = 2 / (9 * degrees);
  const double z = (std::cbrt(value / degrees) - (1 - spread)) / std::sqrt(spread);
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

}  // namespace acoer::check
