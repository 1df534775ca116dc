#include "train/gradients.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <cstdlib>
#include <new>

namespace acoer {

namespace {

// Below this a parallel region costs more than it saves.
constexpr int64_t kParallelNumbers = int64_t{1} << 15;

int64_t countOf(const Policy& policy) {
  if (policy.parameters.empty()) return 0;
  const Parameter& last = policy.parameters.back();
  return last.offset + last.value.numel();
}

at::Tensor newSums(const Policy& policy) {
  return at::zeros({countOf(policy)},
                   at::device(policy.model->device).dtype(gradientSumType(policy)));
}

// sums += gradient, without the copy in fp64 that libtorch's addition makes.
void addWidened(const at::Tensor& sums, const at::Tensor& gradient) {
  auto* to = sums.mutable_data_ptr<double>();
  const auto* from = gradient.const_data_ptr<float>();
  at::parallel_for(0, gradient.numel(), kParallelNumbers, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += double{from[i]};
  });
}

// The parameters that the pass gave a gradient, as places in the sums, and these gradients, flat.
struct Found {
  std::vector<at::Tensor> places, gradients;
};

Found foundIn(const Policy& policy, const GradientSink& from, const at::Tensor& sums) {
  Found found;
  for (const Parameter& parameter : policy.parameters) {
    const at::Tensor whole = from.held(parameter.leaf);
    if (!whole.defined()) continue;
    const int64_t numbers = parameter.value.numel();
    found.places.push_back(sums.narrow(0, parameter.offset, numbers));
    found.gradients.push_back(
        whole.narrow(0, parameter.row, parameter.value.size(0)).reshape({numbers}));
  }
  return found;
}

}  // namespace

at::ScalarType gradientSumType(const Policy& policy) {
  const bool wide = policy.isLora() || isSmallOnCpu(*policy.model);
  return wide ? at::kDouble : policy.model->dtype;
}

at::Tensor gradientIn(const at::Tensor& flat, const Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.value.numel()).view_as(parameter.value);
}

void addGradients(const Policy& policy, const GradientSink& from, at::Tensor& sums) {
  at::Tensor to = sums.defined() ? sums : newSums(policy);
  const Found found = foundIn(policy, from, to);
  if (found.gradients.empty()) return;
  if (found.gradients[0].scalar_type() == to.scalar_type()) {
    at::_foreach_add_(found.places, found.gradients);
  } else if (to.is_cpu()) {
    for (size_t i = 0; i < found.places.size(); ++i) {
      addWidened(found.places[i], found.gradients[i]);
    }
  } else {
    // On a GPU a few launches for all: an adapter's pass gives every pair its gradients.
    const at::Tensor all = at::cat(found.gradients);
    if (all.numel() != to.numel()) fail(ErrorCode::kInternal, "an adapter without a gradient");
    to.add_(all);
  }
  sums = to;
}

void addSums(Policy& policy, at::Tensor sums) {
  GradientSums& own = policy.gradientSums;
  if (own.flat.defined()) {
    own.flat.add_(sums);
  } else {
    own.flat = std::move(sums);
  }
}

at::Tensor roundedGradients(const Policy& policy) {
  const GradientSums& sums = policy.gradientSums;
  const at::Tensor& from = sums.lent ? sums.host : sums.flat;
  if (!from.defined()) return {};
  return from.to(policy.parameters[0].value.scalar_type()).to(policy.model->device);
}

void zeroGradients(Policy& policy) {
  policy.tape.reset();
  GradientSums& sums = policy.gradientSums;
  sums.lent = false;
  if (sums.host.defined() && policy.model->device.is_cpu()) {
    sums.flat.zero_();
  } else {
    sums.flat.reset();
  }
}

NamedTensors gradients(const Policy& policy) {
  const at::Tensor rounded = roundedGradients(policy);
  NamedTensors named;
  for (const Parameter& parameter : policy.parameters) {
    named.emplace_back(parameter.name, rounded.defined() ? gradientIn(rounded, parameter).clone()
                                                         : at::zeros_like(parameter.value));
  }
  return named;
}

at::Tensor lendGradientSums(Policy& policy) {
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  GradientSums& sums = policy.gradientSums;
  if (!sums.host.defined()) {
    // Not from libtorch's allocator, which may count for an engine that is gone by the time the
    // borrower lets go.
    const at::ScalarType type = gradientSumType(policy);
    const auto bytes = static_cast<size_t>(countOf(policy)) * c10::elementSize(type);
    void* memory = std::calloc(1, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    sums.host = at::from_blob(memory, {countOf(policy)}, [](void* own) { std::free(own); }, type);
    if (policy.model->device.is_cpu()) {
      if (sums.flat.defined()) sums.host.copy_(sums.flat);
      sums.flat = sums.host;
    }
  }
  if (!policy.model->device.is_cpu()) {
    if (sums.flat.defined()) {
      sums.host.copy_(sums.flat);
    } else {
      sums.host.zero_();
    }
    sums.lent = true;
  }
  return sums.host;
}

}  // namespace acoer
