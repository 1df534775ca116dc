// Running out of memory: the limit on an engine's tensors, and what still works afterwards.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <thread>

#include "base/memory.h"
#include "check.h"
#include "device_models.h"

namespace acoer::check {
namespace {

const Cancel kNoCancel;
constexpr int64_t kMiB = int64_t{1} << 20;

at::Tensor bytes(int64_t count) { return at::empty({count}, at::kByte); }

// On a CUDA device the limit is the process's and must be lifted again.
class DeviceLimit {
 public:
  DeviceLimit(at::Device device, int64_t limitBytes) : device_(device) {
    prepareMemoryLimit(device, limitBytes);
    memory_.emplace(device, limitBytes);
  }
  ~DeviceLimit() {
    if (!device_.is_cpu()) prepareMemoryLimit(device_, int64_t{1} << 50);
  }

 private:
  at::Device device_;
  std::optional<EngineMemory> memory_;
};

bool runsOut(const std::function<void()>& work) {
  try {
    work();
  } catch (const EngineError& error) {
    return error.code() == ErrorCode::kOutOfMemory;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::Error& error) {
    return std::string(error.what()).find("can't allocate memory") != std::string::npos;
  }
  return false;
}

}  // namespace

ACOER_TEST(memory_limit_counts_what_lives) {
  prepareMemoryLimit(at::kCPU, 4 * kMiB);
  const EngineMemory memory(at::kCPU, 4 * kMiB);
  ACOER_CHECK(memory.use()->bytes == 0);
  at::Tensor kept = bytes(kMiB);
  ACOER_CHECK(memory.use()->bytes == kMiB);
  ACOER_CHECK(reinterpret_cast<uintptr_t>(kept.data_ptr()) % 64 == 0);
  ACOER_CHECK_THROWS(bytes(4 * kMiB), ErrorCode::kOutOfMemory, "memoryLimitBytes");
  ACOER_CHECK(memory.use()->bytes == kMiB);
  {
    const at::Tensor more = bytes(2 * kMiB);
  }
  ACOER_CHECK(memory.use()->bytes == kMiB);
  ACOER_CHECK(memory.use()->peakBytes == 3 * kMiB);
  kept.resize_({3 * kMiB});
  ACOER_CHECK(memory.use()->bytes == 3 * kMiB);
  ACOER_CHECK(bytes(0).numel() == 0);
}

ACOER_TEST(memory_limit_is_never_in_the_way_of_small_tensors) {
  prepareMemoryLimit(at::kCPU, 1);
  const EngineMemory memory(at::kCPU, 1);
  const at::Tensor x = at::ones({8});
  ACOER_CHECK(x.mul(2).sum().item<double>() == 16);
  ACOER_CHECK_THROWS(bytes(kMiB), ErrorCode::kOutOfMemory, "");
}

ACOER_TEST(memory_limit_is_of_one_thread_and_its_tensors_are_freed_on_any) {
  prepareMemoryLimit(at::kCPU, 4 * kMiB);
  at::Tensor outlives;
  {
    const EngineMemory memory(at::kCPU, 4 * kMiB);
    at::Tensor passed = bytes(kMiB);
    std::thread([&] { passed.reset(); }).join();
    ACOER_CHECK(memory.use()->bytes == 0);
    std::thread([&] { passed = bytes(16 * kMiB); }).join();
    ACOER_CHECK(memory.use()->bytes == 0);
    outlives = bytes(kMiB);
  }
  outlives.reset();
  ACOER_CHECK(bytes(16 * kMiB).numel() == 16 * kMiB);
}

// Sizes that no machine has: libtorch's own error, with a limit as without one.
ACOER_TEST(memory_limit_leaves_absurd_sizes_to_libtorch) {
  ACOER_CHECK(runsOut([] { bytes(int64_t{1} << 60); }));
  prepareMemoryLimit(at::kCPU, kMiB);
  ACOER_CHECK(runsOut([] { bytes(int64_t{1} << 60); }));
  ACOER_CHECK(runsOut([] { bytes((int64_t{1} << 62) + 1); }));
}

ACOER_TEST(memory_failure_in_a_parallel_region_reaches_the_caller) {
  const int threads = at::get_num_threads();
  at::set_num_threads(4);
  ACOER_CHECK_THROWS(
      at::parallel_for(0, 64, 1, [](int64_t, int64_t) { fail(ErrorCode::kOutOfMemory, "inside"); }),
      ErrorCode::kOutOfMemory, "inside");
  bool badAlloc = false;
  try {
    at::parallel_for(0, 64, 1, [](int64_t, int64_t) { throw std::bad_alloc(); });
  } catch (const std::bad_alloc&) {
    badAlloc = true;
  }
  at::set_num_threads(threads);
  ACOER_CHECK(badAlloc);
}

// A batch that does not fit leaves gradients and device as they were. Never run on a CUDA device so
// far.
ACOER_TEST(device_out_of_memory_leaves_everything_usable) {
  const at::Device device = checkDevice();
  const auto model = randomModel(smallSpec(), device, at::kFloat, 3);
  const auto policy = randomAdapter(model, 4);
  const auto small = randomSequences(model->spec, {5, 9}, {7, 3}, 5);
  const std::vector<int64_t> prompts(64, 8), completions(64, 56);
  const auto large = randomSequences(model->spec, prompts, completions, 7);
  const auto trainOn = [&](const PackedSequences& batch) {
    addGradients(*policy, batch, randomSlopes(batch, 6));
  };
  trainOn(small);
  const auto before = gradients(*policy);
  ACOER_CHECK(runsOut([&] { at::empty({int64_t{1} << 50}, at::device(device).dtype(at::kByte)); }));
  try {
    const DeviceLimit limit(device, 4 * kMiB);
    ACOER_CHECK(runsOut([&] { trainOn(large); }));
    ACOER_CHECK(runsOut([&] { score(*model, policy.get(), large, 1, kNoCancel); }));
  } catch (const EngineError& error) {
    if (error.code() != ErrorCode::kDevice) throw;
    std::printf("     without a limit: %s\n", error.what());
  }
  releaseFreedMemory(device);
  ACOER_CHECK_LE(largestGap(gradients(*policy), before), 0);
  trainOn(large);
  zeroGradients(*policy);
  trainOn(small);
  // A GPU adds some gradients up in an order that changes from run to run (device_resume.cpp).
  ACOER_CHECK_LE(largestGap(gradients(*policy), before), device.is_cpu() ? 1e-6 : 1e-4);
  ACOER_CHECK(step(*policy, {.learningRate = 1e-3}).applied);
}

}  // namespace acoer::check
