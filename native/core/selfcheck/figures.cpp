#include "selfcheck/figures.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdio>

#include "base/error.h"

namespace acoer {
namespace {

constexpr int64_t kGuardBytes = 512;                     // keeps the alignment of libtorch's memory
constexpr int64_t kGuardByte = 0xA5, kUnwritten = 0xFF;  // a NaN in every floating type
constexpr uint64_t kSeed = 0xAC0E12;

at::Tensor guardedBytes(int64_t bytes, at::Device device) {
  const at::Tensor all =
      at::full({bytes + 2 * kGuardBytes}, kGuardByte, at::device(device).dtype(at::kByte));
  all.narrow(0, kGuardBytes, bytes).fill_(kUnwritten);
  return all;
}

std::string scientific(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", x);
  return text;
}

}  // namespace

Guarded::Guarded(at::IntArrayRef shape, at::ScalarType type, at::Device device) {
  const auto bytes = c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type));
  bytes_ = guardedBytes(bytes, device);
  tensor_ = bytes_.narrow(0, kGuardBytes, bytes).view(type).view(shape);
}

Guarded::Guarded(const at::Tensor& from)
    : Guarded(from.sizes(), from.scalar_type(), from.device()) {
  tensor_.copy_(from);
}

bool Guarded::isTouched() const {
  const int64_t end = bytes_.size(0) - kGuardBytes;
  const at::Tensor guards =
      at::cat({bytes_.narrow(0, 0, kGuardBytes), bytes_.narrow(0, end, kGuardBytes)});
  return guards.ne(kGuardByte).any().item<bool>();
}

std::string kernelName(cuda::KernelId id) {
  return std::string(cuda::kernelInfo(id).name).substr(std::string("acoer_").size());
}

Figures::Figures(const CheckedKernels& checked, KernelFamily family)
    : checked_(checked),
      family_(family),
      generator_(at::detail::createCPUGenerator(kSeed + static_cast<uint64_t>(family))),
      kernel_(familyName(family)) {}

std::string Figures::typed(const std::string& name) const {
  return name + (dtype() == at::kBFloat16 ? "_bf16" : "_fp32");
}

double Figures::bound() const { return dtype() == at::kBFloat16 ? 1e-2 : 1e-5; }

at::Tensor Figures::normal(at::IntArrayRef shape, double mean, double deviation) {
  return normalIn(dtype(), shape, mean, deviation);
}

at::Tensor Figures::normalIn(at::ScalarType type, at::IntArrayRef shape, double mean,
                             double deviation) {
  const at::Tensor host = at::randn(shape, generator_, at::dtype(at::kFloat));
  return host.mul_(deviation).add_(mean).to(type).to(device());
}

at::Tensor Figures::bytes(at::IntArrayRef shape) {
  return at::randint(0, 256, shape, generator_, at::dtype(at::kByte));
}

void Figures::expectNear(const at::Tensor& found, const at::Tensor& exact, double allowed) {
  const at::Tensor wide = exact.to(at::kDouble);
  expect(((found.to(at::kDouble) - wide).norm() / wide.norm()).item<double>(), allowed);
}

void Figures::expectNear(const Guarded& found, const at::Tensor& exact) {
  expectUntouched(found);
  expectNear(found.tensor(), exact);
}

void Figures::expect(double error, double allowed) {
  const bool good = error <= allowed;  // not if it is NaN
  figures_.push_back({kernel_, family_, error, allowed,
                      good ? ""
                           : "differs from libtorch's operations on this card (" +
                                 scientific(error) + ", allowed " + scientific(allowed) + ")"});
}

void Figures::expectUntouched(const Guarded& result) {
  if (result.isTouched()) addFault("writes beside its result");
}

void Figures::addFault(const std::string& fault) {
  figures_.push_back({kernel_, family_, 0, 0, fault});
}

}  // namespace acoer
