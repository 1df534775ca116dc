#include "norm.h"

#include <ATen/ATen.h>

namespace acoer {

namespace {

at::ScalarType wideType(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

Normed rmsNormForward(const at::Tensor& x, const at::Tensor& weight_D, double eps) {
  const at::Tensor wide = x.to(wideType(x));
  const at::Tensor inverseRms = at::rsqrt((wide * wide).mean(-1, true) + eps);
  return {(wide * inverseRms).to(x.scalar_type()) * weight_D, inverseRms};
}

// With n = x r, y = n w and g = dy w: dx = r (g - n mean(g n)).
at::Tensor rmsNormBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverseRms,
                           const at::Tensor& weight_D, const at::Tensor& dWeight_D) {
  const auto wide = wideType(x);
  const at::Tensor n = x.to(wide) * inverseRms;
  at::Tensor g = dy.to(wide);
  if (dWeight_D.defined()) {
    at::Tensor target = dWeight_D;
    target.add_((g * n).flatten(0, -2).sum(0));
  }
  g = g * weight_D.to(wide);
  const at::Tensor mean = (g * n).mean(-1, true);
  return g.addcmul_(n, mean, -1).mul_(inverseRms).to(x.scalar_type());
}

at::Tensor ropeBackward(const at::Tensor& dy_THK, const at::Tensor& cos_TK,
                        const at::Tensor& sin_TK) {
  return applyRope(dy_THK, cos_TK, -sin_TK);
}

// With s = sigmoid(gate): d(silu(gate))/dgate = s (1 + gate (1 - s)), which silu_backward computes.
at::Tensor swigluBackward(const at::Tensor& dy_TF, const at::Tensor& gateUp_T2F) {
  const int64_t width = dy_TF.size(1);
  const at::Tensor gate = gateUp_T2F.narrow(1, 0, width), up = gateUp_T2F.narrow(1, width, width);
  const at::Tensor d_T2F = at::empty_like(gateUp_T2F);
  d_T2F.narrow(1, 0, width).copy_(at::silu_backward(dy_TF * up, gate));
  d_T2F.narrow(1, width, width).copy_(at::silu(gate).mul_(dy_TF));
  return d_T2F;
}

}  // namespace acoer
