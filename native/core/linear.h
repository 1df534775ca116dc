// Products with a weight matrix W [O, I]. It is either plain or, in a bf16 model on a CPU, in the
// panels of bf16_products.h: then a tensor [O / 16, I / 2, 16, 2], and there is no plain copy.
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

// `w_OI` as the products below multiply it fastest: bf16 matrices on a CPU in panels of their own.
at::Tensor readyToMultiply(const at::Tensor& w_OI);

// What linearForwardInto() and linearBackwardInto() do with the product.
struct Into {
  bool add = false;  // to what the target holds
  double scale = 1;  // times the product
};

// y = x W^T, [T, O]. `wide`: in fp32 although x and W are bf16.
at::Tensor linearForward(const at::Tensor& x_TI, const at::Tensor& w, bool wide = false);
// y (+)= scale x W^T. Rows of x and y may be parts of longer rows; the padding of panels is left
// out.
void linearForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& w,
                       const Into& into = {});
// Fills the rows of y with a bias, so that the product added to it next is rounded once, together
// with it.
void startFromBias(const at::Tensor& y_TO, const at::Tensor& bias_O);
// dx = dy W, [T, I].
at::Tensor linearBackward(const at::Tensor& dy_TO, const at::Tensor& w);
// dx (+)= scale dy W; with panels, dx may be fp32 although dy and W are bf16.
void linearBackwardInto(const at::Tensor& dx_TI, const at::Tensor& dy_TO, const at::Tensor& w,
                        const Into& into = {});
// dW = dy^T x, [O, I]; in fp32 for bf16 on a CPU, where the library's bf16 product is slower.
at::Tensor linearWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);

}  // namespace acoer
