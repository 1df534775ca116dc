// What a training pass and an optimiser step cost the host.
#include <cstdio>

#include "check_support.h"

namespace acoer::null_cuda {
namespace {

const Cancel kNever;

// As the paper's run trains: micro-batches of about 9,300 tokens.
constexpr int64_t kSequences = 7, kPromptTokens = 150, kCompletionTokens = 1174;

PackedSequences batchOf(const Policy& policy) {
  return check::randomSequences(policy.model->spec, std::vector(kSequences, kPromptTokens),
                                std::vector(kSequences, kCompletionTokens), 5);
}

// The events of `body`, after two runs of it that fill the allocator.
Counts costOf(const std::function<void()>& body) {
  body();
  body();
  const Counts before = counts();
  body();
  Counts cost = counts();
  for (size_t i = 0; i < cost.size(); ++i) cost[i] -= before[i];
  return cost;
}

// Budgets, not expectations, as in check_decode.cpp.
struct Budget {
  double kernels, gemms, uploads, downloads, deviceCopies, waits;
};

void checkBudget(const char* name, const Counts& cost, const Budget& most) {
  const auto each = [&](Counter counter) { return static_cast<double>(cost[counter]); };
  std::printf(
      "    %s: %.0f kernels, %.0f products, %.0f uploads, %.0f copies to the host, %.0f within the "
      "device, %.0f waits, %.0f allocations\n",
      name, each(kKernels), each(kGemms), each(kUploads), each(kDownloads), each(kDeviceCopies),
      each(kWaits), each(kAllocations));
  ACOER_CHECK_LE(each(kKernels), most.kernels);
  ACOER_CHECK_LE(each(kGemms), most.gemms);
  ACOER_CHECK_LE(each(kUploads), most.uploads);
  ACOER_CHECK_LE(each(kDownloads), most.downloads);
  ACOER_CHECK_LE(each(kDeviceCopies), most.deviceCopies);
  ACOER_CHECK_LE(each(kWaits), most.waits);
  ACOER_CHECK_LE(each(kAllocations), 0);
}

void pass(Policy& policy, std::optional<int64_t> keepBytes = std::nullopt) {
  const PackedSequences batch = batchOf(policy);
  const std::optional<DropoutKey> key =
      policy.options.dropout > 0 ? std::optional(DropoutKey{3}) : std::nullopt;
  forward(policy, batch, 1, key, kNever, keepBytes);
  backward(policy, check::randomSlopes(batch, 6), kNever);
}

ACOER_TEST(bare_cost_of_a_training_pass) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  ACOER_CHECK(model->kernels != nullptr);
  checkBudget("our kernels", costOf([&] { pass(*policy); }),
              {.kernels = 1743,
               .gemms = 1164,
               .uploads = 9,
               .downloads = 2,
               .deviceCopies = 9,
               .waits = 2});
  checkBudget("our kernels, layers run again", costOf([&] { pass(*policy, 0); }),
              {.kernels = 2247,
               .gemms = 1528,
               .uploads = 9,
               .downloads = 2,
               .deviceCopies = 9,
               .waits = 2});
  model->kernels = nullptr;
  checkBudget("libtorch's operations, layers run again", costOf([&] { pass(*policy, 0); }),
              {.kernels = 6112,
               .gemms = 1528,
               .uploads = 9,
               .downloads = 2,
               .deviceCopies = 27,
               .waits = 2});
}

// Masks are made on the device: one upload more than without dropout, and no wait.
ACOER_TEST(bare_cost_of_a_training_pass_with_dropout) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  policy->options.dropout = 0.05;
  checkBudget("dropout", costOf([&] { pass(*policy); }),
              {.kernels = 2748,
               .gemms = 1414,
               .uploads = 10,
               .downloads = 2,
               .deviceCopies = 9,
               .waits = 2});
}

ACOER_TEST(bare_cost_of_an_optimizer_step) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  const PackedSequences batch = check::randomSequences(model->spec, {4}, {4}, 5);
  StepOptions options;
  options.learningRate = 1e-5;
  options.maxGradNorm = 1;
  Counts cost{};
  for (int repeat = 0; repeat < 2; ++repeat) {
    check::addGradients(*policy, batch, check::randomSlopes(batch, 6));
    const Counts before = counts();
    ACOER_CHECK(step(*policy, options).applied);
    cost = counts();
    for (size_t i = 0; i < cost.size(); ++i) cost[i] -= before[i];
  }
  checkBudget(
      "AdamW", cost,
      {.kernels = 3, .gemms = 0, .uploads = 1, .downloads = 1, .deviceCopies = 0, .waits = 1});
}

// Generation and training take their memory from one cache: after the first steps there is enough
// of it.
ACOER_TEST(bare_third_step_allocates_nothing) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  GenerateOptions options;
  options.maxSlots = 16;
  for (int stepNumber = 1; stepNumber <= 3; ++stepNumber) {
    const Counts before = counts();
    run(*model, request(policy.get(), kPromptTokens, 16, 64), options);
    const Counts generated = counts();
    for (int microBatch = 0; microBatch < 2; ++microBatch) pass(*policy);
    step(*policy, {.learningRate = 1e-5});
    std::printf("    step %d: %lld allocations to generate, %lld to train\n", stepNumber,
                static_cast<long long>(generated[kAllocations] - before[kAllocations]),
                static_cast<long long>(counts()[kAllocations] - generated[kAllocations]));
    if (stepNumber == 3) ACOER_CHECK(counts()[kAllocations] == before[kAllocations]);
  }
}

}  // namespace
}  // namespace acoer::null_cuda
