#include "ops/ops.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace acoer {

at::Tensor onDevice(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

std::vector<double> toDoubles(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* from = flat.const_data_ptr<double>();
  return {from, from + flat.numel()};
}

at::Tensor swiglu(const at::Tensor& gateUp_T2F) {
  const auto halves = gateUp_T2F.chunk(2, -1);
  // In place on silu's result, if autograd does not record it.
  return at::GradMode::is_enabled() ? at::silu(halves[0]) * halves[1]
                                    : at::silu(halves[0]).mul_(halves[1]);
}

}  // namespace acoer
