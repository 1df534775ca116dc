// What a decoded token costs the host, and on which device it is decoded.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdio>

#include "check_support.h"

namespace acoer::null_cuda {
namespace {

constexpr int64_t kRows = 16;
// Prompt and completion end within the same 16 positions, so that the KV cache does not grow in
// between.
constexpr int64_t kPromptTokens = 145;
constexpr int64_t kShort = 4, kLong = 12;

// The counts per decoded token of a batch: a longer run minus a shorter one.
std::array<double, kCounters> perToken(const Model& model, const Policy* policy) {
  GenerateOptions options;
  options.maxSlots = kRows;
  options.kvBytes = int64_t{4} << 30;
  Counts total{};
  for (const auto& [newTokens, sign] : {std::pair{kShort, -1}, std::pair{kLong, 1}}) {
    const Counts before = counts();
    run(model, request(policy, kPromptTokens, kRows, newTokens), options);
    const Counts after = counts();
    for (size_t i = 0; i < total.size(); ++i) total[i] += sign * (after[i] - before[i]);
  }
  std::array<double, kCounters> each{};
  for (size_t i = 0; i < each.size(); ++i) {
    each[i] = static_cast<double>(total[i]) / static_cast<double>(kLong - kShort);
  }
  return each;
}

// Budgets, not expectations: what the engine asked of libtorch 2.14.1 when they were set. Lower
// them when the code improves.
struct Budget {
  double kernels, gemms, uploads, deviceCopies, waits;
};

void checkBudget(const char* name, const std::array<double, kCounters>& cost, const Budget& most) {
  std::printf(
      "    %s, %d layers x %d rows, per token: %.0f kernels, %.0f products, %.0f uploads, %.0f "
      "copies to the host, "
      "%.0f within the device, %.0f waits, %.0f allocations\n",
      name, 28, static_cast<int>(kRows), cost[kKernels], cost[kGemms], cost[kUploads],
      cost[kDownloads], cost[kDeviceCopies], cost[kWaits], cost[kAllocations]);
  ACOER_CHECK_LE(cost[kKernels], most.kernels);
  ACOER_CHECK_LE(cost[kGemms], most.gemms);
  ACOER_CHECK_LE(cost[kUploads], most.uploads);
  ACOER_CHECK_LE(cost[kDeviceCopies], most.deviceCopies);
  ACOER_CHECK_LE(cost[kWaits], most.waits);
  ACOER_CHECK_LE(cost[kDownloads], 1.0);
  ACOER_CHECK_LE(cost[kAllocations], 0.0);
}

ACOER_TEST(bare_cost_of_a_token) {
  const auto model = qwen("cuda");
  const auto policy = adapter(model);
  run(*model, request(policy.get(), kPromptTokens, kRows, kShort), {});  // fills the allocator
  checkBudget("base", perToken(*model, nullptr),
              {.kernels = 1583, .gemms = 113, .uploads = 33, .deviceCopies = 114, .waits = 34});
  checkBudget("LoRA", perToken(*model, policy.get()),
              {.kernels = 1583, .gemms = 337, .uploads = 33, .deviceCopies = 114, .waits = 34});
}

int currentDevice() { return c10::impl::getDeviceGuardImpl(c10::kCUDA)->getDevice().index(); }

// Without a device guard every operation would switch to its tensors' device and back.
ACOER_TEST(bare_generates_on_another_device) {
  const auto model = qwen("cuda:1");
  const auto policy = adapter(model);
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
