#include "train/adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "train/gpu_adamw.h"

namespace acoer {

namespace {

double globalNorm(const Policy& policy, const at::Tensor& flat) {
  if (!flat.defined()) return 0;
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : policy.parameters) {
    gradients.push_back(gradientIn(flat, parameter));
  }
  const at::Tensor norms = at::stack(at::_foreach_norm(gradients)).to(at::kDouble);
  return at::linalg_vector_norm(norms).item<double>();
}

// Parameters with the same weight decay, as operands of libtorch's AdamW.
struct Operands {
  std::vector<at::Tensor> values, gradients, expAvgs, expAvgSqs, times;

  // What the shard has of a parameter.
  void add(const Parameter& parameter, const at::Tensor& gradient, const at::Tensor& time) {
    if (parameter.ownBegin == parameter.ownEnd) return;
    values.push_back(parameter.own(parameter.value));
    gradients.push_back(parameter.own(gradient));
    expAvgs.push_back(parameter.expAvg);
    expAvgSqs.push_back(parameter.expAvgSq);
    times.push_back(time);
  }
};

// All memory that a step needs is allocated here, before the first parameter changes, so that no
// allocation can fail half-way.
struct AllOperands {
  Operands decaying, others;

  AllOperands(const Policy& policy, const at::Tensor& flat, double time) {
    const at::Tensor timeTensor = at::full(
        {}, time, at::device(policy.model->device).dtype(policy.parameters[0].value.dtype()));
    int64_t most = 0;
    for (const Parameter& parameter : policy.parameters) {
      if (!flat.defined()) most = std::max(most, parameter.value.numel());
    }
    const at::Tensor zeros = at::zeros({most}, policy.parameters[0].value.options());
    for (const Parameter& parameter : policy.parameters) {
      const at::Tensor& value = parameter.value;
      const at::Tensor gradient = flat.defined() ? gradientIn(flat, parameter)
                                                 : zeros.narrow(0, 0, value.numel()).view_as(value);
      (parameter.decays() ? decaying : others).add(parameter, gradient, timeTensor);
    }
  }
};

// With the gradients `flat` times `clip`; undefined: zeros.
void updateAll(const Policy& policy, const at::Tensor& flat, const StepOptions& options,
               double clip, double time) {
  if (policy.parameters.empty()) return;
  AllOperands all(policy, flat, time);
  for (auto& [operands, weightDecay] :
       {std::pair(&all.decaying, options.weightDecay), std::pair(&all.others, 0.0)}) {
    if (operands->values.empty()) continue;
    if (clip < 1) at::_foreach_mul_(operands->gradients, clip);
    at::_fused_adamw_(operands->values, operands->gradients, operands->expAvgs, operands->expAvgSqs,
                      {}, operands->times, options.learningRate, policy.options.beta1,
                      policy.options.beta2, weightDecay, policy.options.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

// A factor beyond the range of the weights' type would fail half-way, after the moments were
// updated.
void checkOptions(const Policy& policy, const StepOptions& options) {
  for (const auto& [name, value] : {std::pair("learningRate", options.learningRate),
                                    std::pair("weightDecay", options.weightDecay),
                                    std::pair("maxGradNorm", options.maxGradNorm)}) {
    require(std::isfinite(value) && value >= 0, name, "0 or a positive number", value);
  }
  const double factor = options.learningRate * std::max(1.0, options.weightDecay);
  for (const Parameter& parameter : policy.parameters) {
    const bool wide = parameter.value.scalar_type() == at::kDouble;
    const double largest =
        wide ? std::numeric_limits<double>::max() : double{std::numeric_limits<float>::max()};
    if (factor <= largest / 1000) continue;
    fail(ErrorCode::kBadArgument,
         "learningRate, or its product with weightDecay, is out of the range of the weights' type");
  }
}

}  // namespace

StepResult step(Policy& policy, const StepOptions& options) {
  checkOptions(policy, options);
  policy.tape.reset();  // frees memory before the step allocates its own
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  StepResult result;
  const at::Tensor gradients = roundedGradients(policy);
  const std::optional<GpuAdamW> gpu = GpuAdamW::of(policy, gradients);
  result.gradNorm = gpu ? gpu->gradientNorm() : globalNorm(policy, gradients);
  if (!std::isfinite(result.gradNorm)) {
    zeroGradients(policy);
    return result;
  }
  const double clip =
      options.maxGradNorm > 0 ? std::min(1.0, options.maxGradNorm / (result.gradNorm + 1e-6)) : 1;
  const auto time = static_cast<double>(policy.stepCount + 1);
  if (gpu) {
    gpu->update(policy.options, options, clip, time);
  } else {
    updateAll(policy, gradients, options, clip, time);
  }
  ++policy.stepCount;
  zeroGradients(policy);
  result.applied = true;
  return result;
}

}  // namespace acoer
