#include "ops.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace acoer {

at::Tensor rmsNorm(const at::Tensor& x, const at::Tensor& weight_D, double eps) {
  const auto type = x.scalar_type();
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor wideX = x.to(wide);
  const at::Tensor scale = at::rsqrt(at::mean(wideX * wideX, {-1}, /*keepdim=*/true) + eps);
  return (wideX * scale).to(type) * weight_D;
}

RopeTable ropeTable(const ModelSpec& spec, int64_t positions, at::Device device,
                    at::ScalarType dtype) {
  // The angles are rounded as in transformers: frequency, product and cosine in fp32.
  const auto options = at::TensorOptions().dtype(dtype == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor exponent = at::arange(0, spec.headDim, 2, options) / spec.headDim;
  const at::Tensor frequency = at::reciprocal(at::pow(spec.ropeTheta, exponent));
  const at::Tensor angle = at::arange(positions, options).unsqueeze(1) * frequency;
  const at::Tensor both_PK = at::cat({angle, angle}, 1);
  return {onDevice(at::cos(both_PK), device), onDevice(at::sin(both_PK), device)};
}

at::Tensor onDevice(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

std::vector<double> toDoubles(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* from = flat.const_data_ptr<double>();
  return {from, from + flat.numel()};
}

at::Tensor applyRope(const at::Tensor& x_THK, const at::Tensor& cos_TK, const at::Tensor& sin_TK) {
  const auto halves = x_THK.chunk(2, -1);
  const at::Tensor rotated = at::cat({-halves[1], halves[0]}, -1);
  return x_THK * cos_TK.unsqueeze(1) + rotated * sin_TK.unsqueeze(1);
}

at::Tensor swiglu(const at::Tensor& gateUp_T2F) {
  const auto halves = gateUp_T2F.chunk(2, -1);
  // In place on silu's result, if autograd does not record it.
  return at::GradMode::is_enabled() ? at::silu(halves[0]) * halves[1]
                                    : at::silu(halves[0]).mul_(halves[1]);
}

}  // namespace acoer
