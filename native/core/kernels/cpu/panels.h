// A weight matrix W [O, I] in memory: plain or, in a bf16 model on a CPU, in the panels of
// bf16_products.h: then a tensor [O / 16, I / 2, 16, 2], and there is no plain copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace acoer {

bool inPanels(const at::Tensor& w);
int64_t outputsOf(const at::Tensor& w);  // O; in panels rounded up to whole panels
int64_t inputsOf(const at::Tensor& w);   // I; in panels rounded up to whole pairs

// Whether toPanels() takes this matrix: bf16, contiguous, on a CPU, both sizes multiples of 16.
bool fitsPanels(const at::Tensor& w_OI);
// Rearranges the memory of a matrix that fits, so that no second copy is needed. `w_OI` and its
// views must not be used afterwards.
at::Tensor toPanels(const at::Tensor& w_OI);
// A bf16 matrix of any size in panels of their own, padded with zeros.
at::Tensor panelsOf(const at::Tensor& w_OI);

// Rows W[ids] as [N, I]; int64 ids.
at::Tensor rowsOf(const at::Tensor& w, const at::Tensor& ids_N);
// Row W[id], `inputsOf(w)` numbers in the type of `w`, which must be on a CPU.
void copyRow(const at::Tensor& w, int64_t id, void* out);

// `w_OI` as the products of linear.h multiply it fastest: bf16 matrices on a CPU in panels of their
// own.
at::Tensor readyToMultiply(const at::Tensor& w_OI);

}  // namespace acoer
