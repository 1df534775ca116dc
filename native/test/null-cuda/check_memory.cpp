// Memory as the engine sees it. bare_*: on a machine with a driver but no CUDA toolkit; object_*:
// next to libacoer_cuda.so.
#include <cinttypes>
#include <cstdio>

#include "base/device.h"
#include "base/memory.h"
#include "check_support.h"
#include "generate/kv_cache.h"
#include "generate/plan.h"

namespace acoer::null_cuda {
namespace {

// The card that the stand-ins simulate.
constexpr int64_t kTotalBytes = 48'318'382'080;
// The paper's run: prompts of 150 tokens, completions of up to 8,192.
constexpr int64_t kPromptTokens = 150, kNewTokens = 8192;
constexpr int64_t kMany = 256;  // waiting sequences: more than fit

// The number of sequences decoded together if more are waiting than fit at full length. Those that
// come after the first have ended are expected to be as short, and more of them fit.
int64_t slotsOf(const Model& model, const Policy& policy) {
  int64_t first = 0;
  GenerateOptions options{.maxSlots = kMany, .progressEveryMs = 0};
  options.onProgress = [&](GenerateProgress&& progress) {
    if (first == 0) first = progress.ended;
  };
  run(model, request(&policy, kPromptTokens, kMany, kNewTokens, true), options);
  return first;
}

void train(Policy& policy) {
  const auto batch = check::randomSequences(policy.model->spec, {150, 150}, {4096, 4096}, 5);
  check::addGradients(policy, batch, check::randomSlopes(batch, 6));
  StepOptions options;
  options.learningRate = 1e-5;
  step(policy, options);
}

ACOER_TEST(bare_device_facts) {
  const c10::Device device = resolveDevice("cuda");
  const DeviceFacts facts = deviceFacts(device);
  std::printf("    %s: %s, %.1f GB free of %.1f GB\n", facts.device.c_str(), facts.name.c_str(),
              static_cast<double>(facts.freeBytes) / 1e9,
              static_cast<double>(facts.totalBytes) / 1e9);
  ACOER_CHECK(facts.name == "null RTX A6000");
  ACOER_CHECK(facts.totalBytes == kTotalBytes);
  ACOER_CHECK(facts.freeBytes > 0 && facts.freeBytes <= facts.totalBytes);
}

ACOER_TEST(bare_generates) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  const GenerateStats stats = run(*model, request(policy.get(), 20, 3, 10), {});
  std::printf("    %" PRId64 " tokens in %" PRId64 " steps\n", stats.newTokens, stats.decodeSteps);
  ACOER_CHECK(stats.newTokens == 30);
}

ACOER_TEST(bare_limit_is_refused) {
  ACOER_CHECK_THROWS(prepareMemoryLimit(resolveDevice("cuda"), 20'000'000'000), ErrorCode::kDevice,
                     "libacoer_cuda.so");
}

// Memory that a step leaves in the allocator's cache is free for the next step.
ACOER_TEST(bare_kv_budget_is_equal_in_every_step) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  int64_t first = 0;
  for (int stepNumber = 1; stepNumber <= 3; ++stepNumber) {
    const int64_t available = availableBytes(model->device);
    const int64_t slots = slotsOf(*model, *policy);
    std::printf("    step %d: %.2f GB available, room for %" PRId64 " sequences\n", stepNumber,
                static_cast<double>(available) / 1e9, slots);
    if (stepNumber == 1) first = slots;
    ACOER_CHECK(slots == first);
    train(*policy);
  }
  ACOER_CHECK(first >= 16);  // the paper's group fits on the paper's card
}

ACOER_TEST(object_limit_bounds_the_kv_budget) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  const int64_t without = slotsOf(*model, *policy);
  const int64_t limit = 20'000'000'000;
  prepareMemoryLimit(model->device, limit);
  const EngineMemory memory(model->device, limit);
  const int64_t used = memory.use()->bytes;
  const int64_t slots = slotsOf(*model, *policy);
  const int64_t slotBytes = KvCache::bytesPerPosition(model->spec, model->dtype) *
                            positionsNeeded(request(nullptr, kPromptTokens, 1, kNewTokens));
  std::printf("    %" PRId64 " sequences without a limit, %" PRId64
              " under %.0f GB with %.2f GB used\n",
              without, slots, static_cast<double>(limit) / 1e9, static_cast<double>(used) / 1e9);
  ACOER_CHECK(availableBytes(model->device) <= limit - used);
  ACOER_CHECK(slots * slotBytes <= limit - used);
  ACOER_CHECK(slots > 0 && slots < without);
}

}  // namespace
}  // namespace acoer::null_cuda
