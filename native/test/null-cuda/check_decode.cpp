// What a decoded token costs the host, and on which device it is decoded.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdio>

#include "check_support.h"
#include "generate/gpu_steps.h"

namespace acoer::null_cuda {
namespace {

constexpr int64_t kRows = 16;
// Prompt and completion end within one block of attention, so that one graph serves them all. Both
// lengths are whole looks.
constexpr int64_t kPromptTokens = 145;
constexpr int64_t kShort = 24, kLong = 88;

struct Cost {
  std::array<double, kCounters> perToken{};
  std::string fallback;
};

// A longer run minus a shorter one.
Cost costOf(const Model& model, const Policy* policy, DecodePath path) {
  GenerateOptions options;
  options.maxSlots = kRows;
  options.path = path;
  // Telling how far it has come costs the device nothing.
  options.onProgress = [](GenerateProgress&&) {};
  options.progressEveryMs = 0;
  // Fills the allocator with what calls of these sizes take.
  for (int64_t newTokens : {kShort, kLong}) {
    run(model, request(policy, kPromptTokens, kRows, newTokens), options);
  }
  Cost cost;
  Counts total{};
  for (const auto& [newTokens, sign] : {std::pair{kShort, -1}, std::pair{kLong, 1}}) {
    const Counts before = counts();
    cost.fallback = run(model, request(policy, kPromptTokens, kRows, newTokens), options).fallback;
    const Counts after = counts();
    for (size_t i = 0; i < total.size(); ++i) total[i] += sign * (after[i] - before[i]);
  }
  for (size_t i = 0; i < total.size(); ++i) {
    cost.perToken[i] = static_cast<double>(total[i]) / static_cast<double>(kLong - kShort);
  }
  return cost;
}

// Budgets, not expectations: what the engine asked of libtorch 2.14.1 when they were set. Lower
// them when the code improves.
struct Budget {
  double kernels, gemms, graphs, uploads, downloads, deviceCopies, waits;
};

void checkBudget(const char* name, const Cost& cost, const Budget& most) {
  const auto& each = cost.perToken;
  std::printf(
      "    %s, %d layers x %d rows, per token: %.0f kernels, %.0f products, %.3g graphs, %.3g "
      "uploads, %.3g copies to the host, %.0f within the device, %.3g waits, %.0f allocations\n",
      name, 28, static_cast<int>(kRows), each[kKernels], each[kGemms], each[kGraphs],
      each[kUploads], each[kDownloads], each[kDeviceCopies], each[kWaits], each[kAllocations]);
  ACOER_CHECK_LE(each[kKernels], most.kernels);
  ACOER_CHECK_LE(each[kGemms], most.gemms);
  ACOER_CHECK_LE(each[kGraphs], most.graphs);
  ACOER_CHECK_LE(each[kUploads], most.uploads);
  ACOER_CHECK_LE(each[kDownloads], most.downloads);
  ACOER_CHECK_LE(each[kDeviceCopies], most.deviceCopies);
  ACOER_CHECK_LE(each[kWaits], most.waits);
  ACOER_CHECK_LE(each[kAllocations], 0.0);
  ACOER_CHECK_LE(each[kCaptures], 0.0);
  ACOER_CHECK_LE(each[kDefaultStream], 0.0);
}

// Our kernels: one graph a token, and one look every eight.
constexpr Budget kOurKernels{.kernels = 0,
                             .gemms = 0,
                             .graphs = 1,
                             .uploads = 0,
                             .downloads = 1.0 / kStepsPerLook,
                             .deviceCopies = 0,
                             .waits = 1.0 / kStepsPerLook};

ACOER_TEST(bare_cost_of_a_token) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  for (const auto& [name, lora, launches] :
       {std::tuple{"base", static_cast<const Policy*>(nullptr), 258},
        std::tuple{"LoRA", static_cast<const Policy*>(policy.get()), 454}}) {
    const Cost cost = costOf(*model, lora, DecodePath::kAuto);
    ACOER_CHECK(cost.fallback.empty());
    checkBudget(name, cost, kOurKernels);
    // A layer: six kernels less the combination that short rows do not need, and four products;
    // with LoRA seven kernels more, because one of its eight makes the activation, too.
    std::printf("    %s: %lld launches in the graph of a step\n", name,
                static_cast<long long>(launchesOfGraph()));
    ACOER_CHECK_LE(static_cast<double>(launchesOfGraph()), launches);
  }
}

// A driver of CUDA 12 (NULL_CUDA_DRIVER): the kernels are loaded and started through the driver
// library, and a step is one graph all the same.
ACOER_TEST(older_driver_cost_of_a_token) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  const int64_t before = counts()[kDriver];
  const Cost cost = costOf(*model, policy.get(), DecodePath::kAuto);
  ACOER_CHECK(cost.fallback.empty());
  ACOER_CHECK(counts()[kDriver] > before);
  checkBudget("LoRA through the driver", cost, kOurKernels);
  ACOER_CHECK_LE(static_cast<double>(launchesOfGraph()), 454);
}

// The fallback where our kernels do not fit.
ACOER_TEST(bare_cost_of_a_token_by_tensor_operations) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  const Budget most{.kernels = 1446,
                    .gemms = 337,
                    .graphs = 0,
                    .uploads = 2,
                    .downloads = 1,
                    .deviceCopies = 113,
                    .waits = 1};
  checkBudget("LoRA", costOf(*model, policy.get(), DecodePath::kTensorOps), most);
}

int currentDevice() { return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index(); }

// Without a device guard every operation would switch to its tensors' device and back.
ACOER_TEST(bare_generates_on_another_device) {
  const auto model = qwen("cuda:1");
  const auto policy = adapter(model);
  c10::impl::getDeviceGuardImpl(c10::kCUDA)->setDevice({c10::kCUDA, 0});
  const Counts before = counts();
  ACOER_CHECK(currentDevice() == 0);
  int seen = 0;
  const GenerateStats stats =
      run(*model, request(policy.get(), 20, 3, 10), {}, [&](GeneratedSequence&&) {
        ++seen;
        ACOER_CHECK(currentDevice() == 1);
      });
  const int64_t switches = counts()[kSwitches] - before[kSwitches];
  std::printf("    %lld changes of device for %lld tokens\n", static_cast<long long>(switches),
              static_cast<long long>(stats.newTokens));
  ACOER_CHECK(seen == 3);
  ACOER_CHECK_LE(static_cast<double>(switches), 4.0);
  ACOER_CHECK(currentDevice() == 0);
}

}  // namespace
}  // namespace acoer::null_cuda
