// bf16 matrices on a CPU in the panels of kernels/cpu/bf16_products.h: a tensor [O / 16, I / 2, 16,
// 2] for a matrix [O, I].
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace acoer {

// Whether toPanels() takes this matrix: bf16, contiguous, on a CPU, both sizes multiples of 16.
bool fitsPanels(const at::Tensor& w_OI);
// Rearranges the memory of a matrix that fits, so that no second copy is needed. `w_OI` and its
// views must not be used afterwards.
at::Tensor toPanels(const at::Tensor& w_OI);
// A bf16 matrix of any size in panels of their own, padded with zeros.
at::Tensor panelsOf(const at::Tensor& w_OI);
// Row `id` of a matrix in panels: I numbers, or one more if I is odd.
void copyPanelRow(const at::Tensor& panels, int64_t id, void* out);

}  // namespace acoer
