#include "train/shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include "train/gradients.h"

namespace acoer {

namespace {

at::Tensor partOf(const Parameter& parameter, Sharded what) {
  if (what == Sharded::kExpAvg) return parameter.expAvg;
  if (what == Sharded::kExpAvgSq) return parameter.expAvgSq;
  return parameter.own(parameter.value);
}

}  // namespace

at::Tensor lendShard(Policy& policy, Sharded what) {
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  policy.tape.reset();
  const at::Tensor lent = lendGradientSums(policy);
  for (const Parameter& parameter : policy.parameters) {
    const int64_t numbers = parameter.ownEnd - parameter.ownBegin;
    if (numbers == 0) continue;
    lent.narrow(0, parameter.offset + parameter.ownBegin, numbers)
        .copy_(partOf(parameter, what).view({numbers}));
  }
  return lent;
}

void takeWeights(Policy& policy) {
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  const at::Tensor& gathered = policy.gradientSums.host;
  if (!gathered.defined()) {
    fail(ErrorCode::kBadArgument, "no weights were gathered in the sums of the gradients");
  }
  for (Parameter& parameter : policy.parameters) {
    parameter.value.copy_(gradientIn(gathered, parameter));
  }
  zeroGradients(policy);
}

}  // namespace acoer
