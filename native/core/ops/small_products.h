// Products with fp32 and fp64 matrices that fit into a processor's cache, on a CPU. For the
// matrices of small models they are faster than the library's, which arranges both factors anew for
// every product. A row of a result does not depend on the others, bit for bit.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/linear.h"

namespace acoer {

// Whether the products below take a matrix W [O, I] and rows of its type.
bool isSmallMatrix(const at::Tensor& w_OI, const at::Tensor& rows);
// As linearForwardInto, linearBackwardInto and linearWeightGradient (linear.h).
void smallForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& w_OI,
                      const Into& into);
void smallBackwardInto(const at::Tensor& dx_TI, const at::Tensor& dy_TO, const at::Tensor& w_OI,
                       const Into& into);
// W [O, I] of any size arranged once for many products, and y (+)= x W^T with it: the rows of x and
// y may be parts of longer rows.
at::Tensor packForProducts(const at::Tensor& w_OI);
void packedForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& packed,
                       bool add);
bool hasSmallGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);
at::Tensor smallWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);

}  // namespace acoer
