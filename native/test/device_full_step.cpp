// One whole GRPO step at the true shape of Qwen3-1.7B: sampling a group, its gradients and AdamW.
// On a GPU: 16 samples of 1,024 tokens, which must fit into a 48 GB card (44 GB of allocations). On
// a CPU the same code runs with 2 of the 28 layers and short samples, to check this check itself.
#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <chrono>
#include <cstdio>

#include "check.h"
#include "device_models.h"

namespace acoer::check {
namespace {

const Cancel kNoCancel;

double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The peak of the bytes that the caching allocator has reserved; 0 on the CPU, which has no such
// allocator.
int64_t peakDeviceBytes() {
  if (checkDevice().is_cpu()) return 0;
  const auto stats =
      at::getDeviceAllocator(checkDevice().type())->getDeviceStats(checkDevice().index());
  return stats.reserved_bytes[0].peak;
}

GenerateRequest groupRequest(const Policy& policy, int64_t samples, int64_t newTokens) {
  GenerateRequest request;
  for (int t = 0; t < 150; ++t) request.promptIds.push_back((t * 997 + 13) % 151643);
  request.numSamples = samples;
  request.seed = 42;
  request.maxNewTokens = newTokens;  // without stop ids every sample has its full length
  request.policy = &policy;
  return request;
}

PackedSequences packGroup(const GenerateRequest& request,
                          const std::vector<GeneratedSequence>& group, size_t begin, size_t end) {
  PackedSequences packed;
  packed.offsets.push_back(0);
  for (size_t s = begin; s < end; ++s) {
    packed.ids.insert(packed.ids.end(), request.promptIds.begin(), request.promptIds.end());
    packed.ids.insert(packed.ids.end(), group[s].ids.begin(), group[s].ids.end());
    packed.offsets.push_back(static_cast<int64_t>(packed.ids.size()));
    packed.promptLengths.push_back(static_cast<int64_t>(request.promptIds.size()));
  }
  return packed;
}

ACOER_TEST(device_full_step_qwen3_1p7b) {
  const bool gpu = !checkDevice().is_cpu();
  const int64_t samples = gpu ? 16 : 4;
  const int64_t newTokens = gpu ? 1024 : 16;
  auto model = randomModel(qwen3Spec1p7B(gpu ? 28 : 2), checkDevice(), at::kBFloat16, 1, 0.02);
  auto policy = randomAdapter(model, 3);
  const auto request = groupRequest(*policy, samples, newTokens);

  std::vector<GeneratedSequence> group(static_cast<size_t>(samples));
  GenerateOptions options;
  options.maxSlots = samples;
  auto start = std::chrono::steady_clock::now();
  generate(
      *model, {request}, options,
      [&](GeneratedSequence&& sequence) {
        const auto place = static_cast<size_t>(sequence.sample);
        group[place] = std::move(sequence);
      },
      kNoCancel);
  const double rolloutSeconds = secondsSince(start);

  start = std::chrono::steady_clock::now();
  const size_t half = group.size() / 2;
  double entropySum = 0;
  for (const auto& [begin, end] : {std::pair{size_t{0}, half}, std::pair{half, group.size()}}) {
    const PackedSequences packed = packGroup(request, group, begin, end);
    const auto result = addGradients(*policy, packed, randomSlopes(packed, begin + 1));
    ACOER_CHECK(result.entropies.size() == (end - begin) * static_cast<size_t>(newTokens));
    for (const double entropy : result.entropies) entropySum += entropy;
  }
  StepOptions stepOptions;
  stepOptions.learningRate = 5e-6;
  stepOptions.maxGradNorm = 1;
  const auto stepped = step(*policy, stepOptions);
  const double trainSeconds = secondsSince(start);

  ACOER_CHECK(stepped.applied && stepped.gradNorm > 0);
  const double peakGb = static_cast<double>(peakDeviceBytes()) / 1e9;
  std::printf(
      "    %s layers %zu, %lld x %lld tokens: rollout %.2f s (%.0f tokens/s), train %.2f s, peak "
      "%.1f GB, "
      "mean entropy %.2f nats\n",
      checkDevice().str().c_str(), model->weights.layers.size(), static_cast<long long>(samples),
      static_cast<long long>(newTokens), rolloutSeconds,
      static_cast<double>(samples * newTokens) / rolloutSeconds, trainSeconds, peakGb,
      entropySum / static_cast<double>(samples * newTokens));
  ACOER_CHECK_LE(peakGb, 44.0);
}

}  // namespace
}  // namespace acoer::check
