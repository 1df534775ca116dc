#include "base/ceilings.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace acoer {
namespace {

constexpr int64_t kBufferBytes = int64_t{512} << 20;
constexpr double kMinSeconds = 0.25;

// Two 64-bit lanes: available on every x86-64, and already faster than memory.
using Lanes = uint64_t __attribute__((vector_size(16)));

uint64_t sumLanes(const Lanes* begin, const Lanes* end) {
  Lanes a{}, b{}, c{}, d{};
  for (const Lanes* at = begin; at + 4 <= end; at += 4) {
    a += at[0];
    b += at[1];
    c += at[2];
    d += at[3];
  }
  const Lanes total = a + b + c + d;
  return total[0] + total[1];
}

double seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// Calls `work` until kMinSeconds have passed, at least twice; returns the mean time of a call.
template <class Work>
double timeOf(const Cancel& cancel, const Work& work) {
  work();  // warm-up: pages, code paths, packing
  const auto start = std::chrono::steady_clock::now();
  int64_t count = 0;
  for (; count < 2 || seconds(start) < kMinSeconds; ++count) {
    cancel.check();
    work();
  }
  return seconds(start) / static_cast<double>(count);
}

double readBytesPerSecondCpu(const Cancel& cancel) {
  const at::Tensor buffer = at::ones({kBufferBytes}, at::kByte);
  const auto* lanes = static_cast<const Lanes*>(buffer.const_data_ptr());
  const int64_t count = kBufferBytes / static_cast<int64_t>(sizeof(Lanes));
  const int64_t threads = std::max(1, at::get_num_threads());
  std::vector<uint64_t> sums(threads);
  const double elapsed = timeOf(cancel, [&] {
    std::vector<std::jthread> others;  // also joined if starting another one fails
    const auto part = [&](int64_t i) {
      sums[i] += sumLanes(lanes + i * count / threads, lanes + (i + 1) * count / threads);
    };
    for (int64_t i = 1; i < threads; ++i) others.emplace_back(part, i);
    part(0);
    others.clear();
  });
  // The sums must be used, or the reads could be optimised away.
  if (std::all_of(sums.begin(), sums.end(), [](uint64_t sum) { return sum == 0; })) {
    fail(ErrorCode::kInternal, "the read-bandwidth measurement read nothing");
  }
  return static_cast<double>(kBufferBytes) / elapsed;
}

double readBytesPerSecondDevice(c10::Device device, const Cancel& cancel) {
  const at::Tensor buffer =
      at::ones({kBufferBytes / 4}, at::TensorOptions(device).dtype(at::kFloat));
  constexpr int kRepeats = 16;  // item() waits for the device; its cost is spread over these
  const double elapsed = timeOf(cancel, [&] {
    at::Tensor last;
    for (int i = 0; i < kRepeats; ++i) last = buffer.sum();
    (void)last.item<float>();
  });
  return static_cast<double>(kBufferBytes) * kRepeats / elapsed;
}

double matmulFlopsPerSecond(c10::Device device, c10::ScalarType dtype, int64_t size,
                            const Cancel& cancel) {
  const auto options = at::TensorOptions(device).dtype(dtype);
  const at::Tensor a = at::full({size, size}, 0.5, options);
  const at::Tensor b = at::full({size, size}, 0.25, options);
  const int repeats = device.is_cpu() ? 1 : 16;
  const double elapsed = timeOf(cancel, [&] {
    at::Tensor product;
    for (int i = 0; i < repeats; ++i) product = at::mm(a, b);
    (void)product.select(0, 0).select(0, 0).item();
  });
  return 2.0 * size * size * size * repeats / elapsed;
}

// A CPU without bf16 units may need half a minute for one full-size bf16 product, at a hundredth of
// its fp32 rate. A small product shows that, and then the full-size one is skipped.
double matmulFlopsPerSecondCpu(c10::ScalarType dtype, const Cancel& cancel) {
  constexpr int64_t kSize = 2048;
  constexpr int64_t kTrialSize = 256;
  constexpr double kHopeless = 0.1;
  if (dtype != at::kBFloat16) return matmulFlopsPerSecond(at::kCPU, dtype, kSize, cancel);
  const double inFloat = matmulFlopsPerSecond(at::kCPU, at::kFloat, kSize, cancel);
  const double trial = matmulFlopsPerSecond(at::kCPU, dtype, kTrialSize, cancel);
  if (trial < kHopeless * inFloat) return inFloat;
  return std::max(inFloat, matmulFlopsPerSecond(at::kCPU, dtype, kSize, cancel));
}

}  // namespace

Ceilings measureCeilings(c10::Device device, c10::ScalarType dtype, const Cancel& cancel) {
  c10::NoGradGuard noGrad;
  if (device.is_cpu()) {
    return {readBytesPerSecondCpu(cancel), matmulFlopsPerSecondCpu(dtype, cancel)};
  }
  constexpr int64_t kSize = 8192;
  return {readBytesPerSecondDevice(device, cancel),
          matmulFlopsPerSecond(device, dtype, kSize, cancel)};
}

}  // namespace acoer
