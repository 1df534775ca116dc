// The elementwise pieces of a layer with their backwards, without autograd. fp32 and fp64 on a CPU
// take the kernels of norm_kernels.h, everything else tensor operations.
#pragma once

#include <ATen/core/Tensor.h>

namespace acoer {

// cos and sin [T, K] of the tokens' positions, in the compute type; undefined: no rotation.
struct Angles {
  at::Tensor cos_TK, sin_TK;
};

struct Normed {
  at::Tensor y;
  at::Tensor inverseRms;  // x's shape with a last dimension of 1; fp32 (fp64 for fp64)
};

// RMS norm over the last dimension of x [T, D] or [T, heads, K], then the rotation if there is one.
Normed rmsRotate(const at::Tensor& x, const at::Tensor& weight, double eps,
                 const Angles& angles = {});

// What the backward of rmsRotate reads beside dL/dy.
struct NormInputs {
  at::Tensor x, inverseRms, weight;
  Angles angles;
  at::Tensor dWeight;  // dL/dweight is added here when defined
};

// Writes dL/dx to `dx`, plus `residual` when defined (contiguous, as `dx` then is).
void rmsRotateBackward(const at::Tensor& dy, const NormInputs& inputs, const at::Tensor& residual,
                       const at::Tensor& dx);

at::Tensor swigluBackward(const at::Tensor& dy_TF, const at::Tensor& gateUp_T2F);

}  // namespace acoer
