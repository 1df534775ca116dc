// Products with a weight matrix W [O, I], plain or in panels.
#pragma once

#include "kernels/cpu/panels.h"

namespace acoer {

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
