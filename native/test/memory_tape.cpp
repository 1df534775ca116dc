// The memory of a tape: how much is reported, and what happens if it does not fit.
#include <ATen/ATen.h>

#include "base/memory.h"
#include "check.h"
#include "device_models.h"

namespace acoer::check {
namespace {

const Cancel kNever;
constexpr int64_t kPlenty = int64_t{1} << 32;

// Activations dominate: many layers over a small vocabulary.
std::shared_ptr<Policy> deepAdapter(double dropout = 0) {
  ModelSpec spec = smallSpec();
  spec.numLayers = 8;
  spec.vocabSize = 64;
  auto policy = randomAdapter(randomModel(spec, at::kCPU, at::kFloat, 3), 4);
  policy->options.dropout = dropout;
  return policy;
}

PackedSequences sequencesOf(const Policy& policy, const std::vector<int64_t>& completions) {
  return randomSequences(policy.model->spec, std::vector<int64_t>(completions.size(), 8),
                         completions, 5);
}

const std::optional<DropoutKey> kKey = DropoutKey{9};

// The peak of allocated bytes in forward() alone, and in forward() and backward() together.
struct Peaks {
  int64_t forward = 0, both = 0;
};

Peaks peaksOf(Policy& policy, const PackedSequences& batch, int64_t keepBytes) {
  prepareMemoryLimit(at::kCPU, kPlenty);
  const EngineMemory memory(at::kCPU, kPlenty);
  Peaks peaks;
  forward(policy, batch, 0.7, kKey, kNever, keepBytes);
  peaks.forward = memory.use()->peakBytes;
  backward(policy, randomSlopes(batch, 6), kNever);
  peaks.both = memory.use()->peakBytes;
  return peaks;
}

ACOER_TEST(memory_tape_bytes_are_what_is_allocated) {
  for (const double dropout : {0.0, 0.3}) {
    const auto policy = deepAdapter(dropout);
    const auto batch = sequencesOf(*policy, {100, 70, 9});
    for (const int64_t keepBytes : {kPlenty, int64_t{0}}) {
      prepareMemoryLimit(at::kCPU, kPlenty);
      const EngineMemory memory(at::kCPU, kPlenty);
      forward(*policy, batch, 1, kKey, kNever, keepBytes);
      const auto allocated = static_cast<double>(memory.use()->bytes);
      const auto told = static_cast<double>(tapeBytes(*policy));
      ACOER_CHECK_LE(told, allocated);
      ACOER_CHECK_LE(0.99 * allocated, told);
      zeroGradients(*policy);
      ACOER_CHECK(memory.use()->bytes == 0);
    }
  }
}

// Layer by layer, the last ones first; the gradients do not depend on how many.
ACOER_TEST(memory_tape_keeps_as_many_layers_as_fit) {
  const auto policy = deepAdapter(0.3);
  const auto batch = sequencesOf(*policy, {60, 20});
  const auto keeping = [&](int64_t keepBytes) {
    zeroGradients(*policy);
    forward(*policy, batch, 0.7, kKey, kNever, keepBytes);
    const int64_t bytes = tapeBytes(*policy);
    backward(*policy, randomSlopes(batch, 6), kNever);
    return bytes;
  };
  const int64_t none = keeping(0), all = keeping(kPlenty);
  const auto want = gradients(*policy);
  const auto layers = static_cast<int64_t>(policy->model->weights.layers.size());
  const int64_t layer = (all - none) / layers;
  std::vector<int64_t> seen{none};
  for (int64_t count = 1; count <= 2 * layers; ++count) {
    const int64_t keepBytes = layer * count;
    const int64_t bytes = keeping(keepBytes);
    ACOER_CHECK_LE(largestGap(gradients(*policy), want), 0);
    ACOER_CHECK_LE(bytes - none, keepBytes);
    if (bytes != seen.back()) seen.push_back(bytes);
  }
  ACOER_CHECK(seen.back() == all && static_cast<int64_t>(seen.size()) == layers + 1);
}

// A limit leaves a quarter of what is free to activations.
ACOER_TEST(memory_tape_is_a_share_of_what_is_available) {
  const auto policy = deepAdapter();
  const auto batch = sequencesOf(*policy, {400});
  const int64_t all = peaksOf(*policy, batch, kPlenty).forward;
  const int64_t none = peaksOf(*policy, batch, 0).forward;
  zeroGradients(*policy);
  const EngineMemory memory(at::kCPU, 2 * all);
  forward(*policy, batch, 0.7, kKey, kNever);
  ACOER_CHECK(memory.use()->peakBytes > none + (all - none) / 8);
  ACOER_CHECK(memory.use()->peakBytes < all - (all - none) / 8);
}

// Forward fits with all activations kept, but backward does not: both run again and recompute each
// layer from its input, with the same dropout and temperature.
ACOER_TEST(memory_tape_of_one_sequence_that_leaves_backward_no_room) {
  const auto policy = deepAdapter(0.3);
  const auto batch = sequencesOf(*policy, {400});
  const Peaks kept = peaksOf(*policy, batch, kPlenty);
  const auto once = gradients(*policy);
  zeroGradients(*policy);
  const Peaks bare = peaksOf(*policy, batch, 0);
  const int64_t limit = (kept.forward + kept.both) / 2;
  ACOER_CHECK(kept.forward < limit && limit < kept.both && bare.both < limit);
  zeroGradients(*policy);
  {
    const EngineMemory memory(at::kCPU, limit);
    forward(*policy, batch, 0.7, kKey, kNever, kPlenty);
    ACOER_CHECK(memory.use()->peakBytes == kept.forward);
    backward(*policy, randomSlopes(batch, 6), kNever);
    ACOER_CHECK(memory.use()->peakBytes <= limit && tapeBytes(*policy) == 0);
  }
  ACOER_CHECK_LE(largestGap(gradients(*policy), once), 0);
}

ACOER_TEST(memory_tape_of_one_sequence_that_does_not_fit_keeps_less) {
  const auto policy = deepAdapter(0.3);
  const auto batch = sequencesOf(*policy, {400});
  const Peaks kept = peaksOf(*policy, batch, kPlenty);
  const auto once = gradients(*policy);
  zeroGradients(*policy);
  const Peaks bare = peaksOf(*policy, batch, 0);
  const int64_t limit = (bare.both + kept.forward) / 2;
  ACOER_CHECK(bare.both < limit && limit < kept.forward);
  zeroGradients(*policy);
  {
    const EngineMemory memory(at::kCPU, limit);
    forward(*policy, batch, 0.7, kKey, kNever, kPlenty);
    backward(*policy, randomSlopes(batch, 6), kNever);
  }
  ACOER_CHECK_LE(largestGap(gradients(*policy), once), 0);
}

// The caller can split the batch.
ACOER_TEST(memory_tape_of_several_sequences_is_not_tried_again) {
  const auto policy = deepAdapter();
  const auto batch = sequencesOf(*policy, {200, 200});
  const Peaks kept = peaksOf(*policy, batch, kPlenty);
  const auto before = gradients(*policy);
  {
    const EngineMemory memory(at::kCPU, (kept.forward + kept.both) / 2);
    forward(*policy, batch, 0.7, kKey, kNever, kPlenty);
    ACOER_CHECK_THROWS(backward(*policy, randomSlopes(batch, 6), kNever), ErrorCode::kOutOfMemory,
                       "memoryLimitBytes");
    ACOER_CHECK(tapeBytes(*policy) == 0);
  }
  {
    const EngineMemory memory(at::kCPU, kept.forward / 2);
    ACOER_CHECK_THROWS(forward(*policy, batch, 0.7, kKey, kNever, kPlenty), ErrorCode::kOutOfMemory,
                       "memoryLimitBytes");
    ACOER_CHECK(memory.use()->bytes == 0);
  }
  ACOER_CHECK_LE(largestGap(gradients(*policy), before), 0);
}

}  // namespace
}  // namespace acoer::check
