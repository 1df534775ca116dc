// The products of LoRA adapters as launches of the project's CUDA kernels, for few rows; bf16 and
// fp32, on the stream that libtorch's operations use.
//
// Results are rounded where the library rounds them: the low-rank products, and y after the sum.
#pragma once

#include "ops/adapters.h"

namespace acoer {

class GpuKernels;

// Whether a group's products for so many rows are left to our kernels. Above this the library's are
// faster, on tensor cores.
bool fitsLoraKernels(const AdapterGroup& group, int64_t rows);

// t = x a^T, [N, group.ranks].
void startLoraRanks(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& x_NI,
                    const at::Tensor& t_NR);
// y += t b^T.
void startLoraAdd(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& t_NR,
                  const at::Tensor& y_NO);
// act = silu(gate) up, of gateUp + t b^T, which is not written.
void startLoraSwiglu(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& t_NR,
                     const at::Tensor& gateUp_N2F, const at::Tensor& act_NF);

}  // namespace acoer
