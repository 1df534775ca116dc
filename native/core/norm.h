// The elementwise parts of a layer and their backwards, without autograd. fp32 and fp64 on a CPU
// use the kernels of norm_kernels.h, everything else uses tensor operations.
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

// What the backward of rmsRotate reads besides dL/dy.
struct NormInputs {
  at::Tensor x, inverseRms, weight;
  Angles angles;
  at::Tensor dWeight;  // dL/dweight is added here if defined
};

// Writes dL/dx, plus `residual` if defined, to `dx`; with a residual both must be contiguous.
void rmsRotateBackward(const at::Tensor& dy, const NormInputs& inputs, const at::Tensor& residual,
                       const at::Tensor& dx);

at::Tensor swigluBackward(const at::Tensor& dy_TF, const at::Tensor& gateUp_T2F);

}  // namespace acoer
