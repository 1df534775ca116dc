// The elementwise pieces of a layer with their backwards, without autograd: RMS norm (over the last
// dimension), rotary embedding, SwiGLU. Formulas are in norm.cpp.
#pragma once

#include "ops.h"

namespace acoer {

struct Normed {
  at::Tensor y;
  at::Tensor inverseRms;  // [..., 1], fp32 (fp64 for fp64)
};
Normed rmsNormForward(const at::Tensor& x, const at::Tensor& weight_D, double eps);

// dL/dx; adds dL/dweight to `dWeight_D` when defined.
at::Tensor rmsNormBackward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& inverseRms,
                           const at::Tensor& weight_D, const at::Tensor& dWeight_D);

// The rotation is orthogonal: its backward is the rotation by the opposite angle.
at::Tensor ropeBackward(const at::Tensor& dy_THK, const at::Tensor& cos_TK,
                        const at::Tensor& sin_TK);

at::Tensor swigluBackward(const at::Tensor& dy_TF, const at::Tensor& gateUp_T2F);

}  // namespace acoer
