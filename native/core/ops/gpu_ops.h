// The elementwise work of training as launches of the project's CUDA kernels, on the stream that
// libtorch's operations use. A function named gpu* does nothing and returns false, or what is
// empty, when `kernels` is null or its kernel does not take these tensors (bf16 and fp32; rows of
// whole packs of eight; heads of 64, 96 or 128): the caller then uses tensor operations.
//
// Results are rounded where the tensor operations round them (docs/numerics.md).
#pragma once

#include <optional>

#include "ops/dropout.h"
#include "ops/norm.h"

namespace acoer {

// Kernels that write to tensors that exist: decoding allocates nothing. They must take the tensors.
// `delta_TD` and `out.inverseRms` may be undefined.
void startNorm(const GpuKernels& kernels, const at::Tensor& x_TD, const at::Tensor& delta_TD,
               const at::Tensor& weight_D, double eps, const Normed& out);
void startHeadNorm(const GpuKernels& kernels, const at::Tensor& x_THK, const at::Tensor& weight_K,
                   double eps, const Angles& angles, const Normed& out);
void startSwiglu(const GpuKernels& kernels, const at::Tensor& gateUp_T2F, const at::Tensor& act_TF);
void startSwigluBackward(const GpuKernels& kernels, const at::Tensor& dy_TF,
                         const at::Tensor& gateUp_T2F, const at::Tensor& d_T2F);
// The mask of gpuDropoutMask.
void startDropoutMask(const DropoutPlan& plan, uint32_t threshold, uint64_t place,
                      const at::Tensor& mask_TW);

// rmsRotate and addAndNorm of norm.h.
std::optional<Normed> gpuRmsRotate(const GpuKernels* kernels, const at::Tensor& x,
                                   const at::Tensor& weight, double eps, const Angles& angles);
std::optional<Normed> gpuAddAndNorm(const GpuKernels* kernels, const at::Tensor& x_TD,
                                    const at::Tensor& delta_TD, const at::Tensor& weight_D,
                                    double eps);
// Not when the weight is trained, too.
bool gpuRmsRotateBackward(const GpuKernels* kernels, const at::Tensor& dy, const NormInputs& inputs,
                          const at::Tensor& residual, const at::Tensor& dx);

at::Tensor gpuSwiglu(const GpuKernels* kernels, const at::Tensor& gateUp_T2F);
at::Tensor gpuSwigluBackward(const GpuKernels* kernels, const at::Tensor& dy_TF,
                             const at::Tensor& gateUp_T2F);

// The mask of dropoutMask. `threshold` is the probability in units of 1 / 65536, `place` the
// counter's half that names layer and target.
at::Tensor gpuDropoutMask(const DropoutPlan& plan, uint32_t threshold, uint64_t place,
                          int64_t width, at::TensorOptions options);

// Where log-probs and entropies of a chunk go, and the probabilities in the type of `probs_CV`,
// which may be the logits themselves; undefined: not wanted.
struct LogProbsTarget {
  at::Tensor logprobs_C, entropies_C, probs_CV;
};
bool gpuLogProbs(const GpuKernels* kernels, const at::Tensor& logits_CV,
                 const at::Tensor& targets_C, double temperature, const LogProbsTarget& to);

}  // namespace acoer
