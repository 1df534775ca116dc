#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <chrono>

#include "../device_models.h"
#include "measure.h"

namespace acoer::measure {
namespace {

constexpr int64_t kRank = 16;

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void wait(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

double copyRate(c10::Device device, int64_t bytes, int repeats) {
  const at::Tensor from = at::zeros({bytes}, at::device(device).dtype(at::kByte));
  at::Tensor to = at::empty_like(from);
  to.copy_(from);
  const Stopwatch watch(device);
  for (int i = 0; i < repeats; ++i) to.copy_(from);
  return 2.0 * static_cast<double>(bytes) * repeats / watch.seconds();
}

double matmulRate(c10::Device device, int64_t side, int repeats) {
  const auto options = at::device(device).dtype(at::kBFloat16);
  const at::Tensor a = at::randn({side, side}, options), b = at::randn({side, side}, options);
  at::Tensor product = at::mm(a, b);
  const Stopwatch watch(device);
  for (int i = 0; i < repeats; ++i) at::mm_out(product, a, b);
  const auto n = static_cast<double>(side);
  return 2 * n * n * n * repeats / watch.seconds();
}

}  // namespace

Stopwatch::Stopwatch(c10::Device device) : device_(device) {
  wait(device);
  start_ = nanoseconds();
}

double Stopwatch::seconds() const {
  wait(device_);
  return static_cast<double>(nanoseconds() - start_) * 1e-9;
}

Subject makeSubject(c10::Device device, bool tiny) {
  Subject subject;
  subject.tiny = tiny;
  subject.device = device;
  const ModelSpec spec = tiny ? check::smallSpec() : check::qwen3Spec1p7B(28);
  subject.model = check::randomModel(spec, device, at::kBFloat16, 1, 0.02);
  PolicyOptions options;
  options.rank = kRank;
  options.alpha = 2 * kRank;
  options.targets.fill(true);
  options.seed = 3;
  subject.policy = createPolicy(subject.model, options);
  return subject;
}

Ceilings ceilings(const Subject& subject) {
  if (subject.tiny) {
    return {copyRate(subject.device, 1 << 22, 2), matmulRate(subject.device, 128, 2)};
  }
  return {copyRate(subject.device, int64_t{1} << 30, 20), matmulRate(subject.device, 8192, 20)};
}

}  // namespace acoer::measure
