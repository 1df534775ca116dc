#include "adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu_adamw.h"

namespace acoer {

namespace {

// The rows of the leaf's gradient that belong to the parameter; undefined if there is no gradient.
at::Tensor gradientOf(const Parameter& parameter) {
  const at::Tensor& gradient = parameter.leaf.grad();
  if (!gradient.defined()) return {};
  return gradient.narrow(0, parameter.row, parameter.value.size(0));
}

double globalNorm(const Policy& policy) {
  std::vector<at::Tensor> norms;
  for (const Parameter& parameter : policy.parameters) {
    const at::Tensor gradient = gradientOf(parameter);
    if (gradient.defined()) norms.push_back(at::linalg_vector_norm(gradient).to(at::kDouble));
  }
  return norms.empty() ? 0 : at::linalg_vector_norm(at::stack(norms)).item<double>();
}

// All memory that a step needs, allocated before the first parameter changes, so that no allocation
// can fail half-way.
class StepBuffers {
 public:
  explicit StepBuffers(const Policy& policy) {
    for (const Parameter& parameter : policy.parameters) {
      reserve(scratch_, parameter);
      if (!gradientOf(parameter).defined()) reserve(zeros_, parameter);
    }
    if (zeros_.defined()) zeros_.zero_();
  }
  at::Tensor scratch(const Parameter& parameter) const { return shaped(scratch_, parameter); }
  at::Tensor zeros(const Parameter& parameter) const { return shaped(zeros_, parameter); }

 private:
  static void reserve(at::Tensor& flat, const Parameter& parameter) {
    if (flat.defined() && flat.numel() >= parameter.value.numel()) return;
    flat = at::Tensor();
    flat = at::empty({parameter.value.numel()}, parameter.value.options());
  }
  static at::Tensor shaped(const at::Tensor& flat, const Parameter& parameter) {
    return flat.narrow(0, 0, parameter.value.numel()).view(parameter.value.sizes());
  }

  at::Tensor scratch_;
  at::Tensor zeros_;
};

void updateParameter(Parameter& parameter, const at::Tensor& gradient, at::Tensor denominator,
                     const PolicyOptions& betas, const StepOptions& options, double time) {
  const double correction1 = 1 - std::pow(betas.beta1, time);
  const double correction2 = 1 - std::pow(betas.beta2, time);
  parameter.value.mul_(1 - options.learningRate * options.weightDecay);
  parameter.expAvg.lerp_(gradient, 1 - betas.beta1);
  parameter.expAvgSq.mul_(betas.beta2).addcmul_(gradient, gradient, 1 - betas.beta2);
  at::sqrt_out(denominator, parameter.expAvgSq).div_(std::sqrt(correction2)).add_(betas.eps);
  parameter.value.addcdiv_(parameter.expAvg, denominator, -options.learningRate / correction1);
}

// Parameter by parameter; `clip` is the gradients' factor.
void updateAll(Policy& policy, const StepOptions& options, double clip, double time) {
  const StepBuffers buffers(policy);
  for (Parameter& parameter : policy.parameters) {
    at::Tensor gradient = gradientOf(parameter);
    if (!gradient.defined()) gradient = buffers.zeros(parameter);
    if (clip < 1) gradient.mul_(clip);
    updateParameter(parameter, gradient, buffers.scratch(parameter), policy.options, options, time);
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
  const std::optional<GpuAdamW> gpu = GpuAdamW::of(policy);
  result.gradNorm = gpu ? gpu->gradientNorm() : globalNorm(policy);
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
    updateAll(policy, options, clip, time);
  }
  ++policy.stepCount;
  zeroGradients(policy);
  result.applied = true;
  return result;
}

void zeroGradients(Policy& policy) {
  policy.tape.reset();
  for (Parameter& parameter : policy.parameters) parameter.leaf.mutable_grad().reset();
}

std::vector<std::pair<std::string, at::Tensor>> gradients(const Policy& policy) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const Parameter& parameter : policy.parameters) {
    const at::Tensor gradient = gradientOf(parameter);
    named.emplace_back(parameter.name,
                       gradient.defined() ? gradient.clone() : at::zeros_like(parameter.value));
  }
  return named;
}

}  // namespace acoer
