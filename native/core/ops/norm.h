// The elementwise parts of a layer and their backwards, without autograd. With `kernels` they are
// CUDA kernels where those take the tensors (gpu_ops.h), on a CPU those of kernels/cpu/kernels.h;
// everything else uses tensor operations.
#pragma once

#include <ATen/core/Tensor.h>

namespace acoer {

class GpuKernels;

// cos and sin [T, K] of the tokens' positions, in the compute type; undefined: no rotation.
struct Angles {
  at::Tensor cos_TK, sin_TK;
};

struct Normed {
  at::Tensor y;
  at::Tensor inverseRms;  // x's shape with a last dimension of 1; fp32 (fp64 for fp64)
};

// RMS norm over the last dimension of x [T, D] or [T, heads, K], then the rotation if there is one.
// An undefined weight, with a rotation: no norm, and no `inverseRms`. The same below.
Normed rmsRotate(const GpuKernels* kernels, const at::Tensor& x, const at::Tensor& weight,
                 double eps, const Angles& angles = {});
// The reference for all kernels: normalised in fp32 (fp64 for fp64), rounded to x's type, then
// multiplied by the weight.
Normed rmsRotateByTensorOps(const at::Tensor& x, const at::Tensor& weight, double eps,
                            const Angles& angles);

// Adds `delta` to x [T, D] in place, then as rmsRotate.
Normed addAndNorm(const GpuKernels* kernels, at::Tensor x_TD, const at::Tensor& delta_TD,
                  const at::Tensor& weight_D, double eps);

// What the backward of rmsRotate reads besides dL/dy.
struct NormInputs {
  at::Tensor x, inverseRms, weight;
  Angles angles;
  at::Tensor dWeight;  // dL/dweight is added here if defined
};

// Writes dL/dx, plus `residual` if defined, to `dx`; with a residual both must be contiguous.
void rmsRotateBackward(const GpuKernels* kernels, const at::Tensor& dy, const NormInputs& inputs,
                       const at::Tensor& residual, const at::Tensor& dx);

// swiglu of ops.h by the CPU kernel, into `act_TF`; false: it does not take the type.
bool cpuSwiglu(const at::Tensor& gateUp_T2F, const at::Tensor& act_TF);

// swiglu of ops.h, and its backward.
at::Tensor swigluForward(const GpuKernels* kernels, const at::Tensor& gateUp_T2F);
at::Tensor swigluBackward(const GpuKernels* kernels, const at::Tensor& dy_TF,
                          const at::Tensor& gateUp_T2F);

}  // namespace acoer
