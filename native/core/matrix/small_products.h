// Products with fp32 and fp64 matrices that fit into a processor's cache, on a CPU. For the
// matrices of small models they are faster than the library's, which arranges both factors anew for
// every product. A row of a result does not depend on the others, bit for bit. The rows of x, y, dx
// and dy may be parts of longer rows.
#pragma once

#include <ATen/core/Tensor.h>

namespace acoer {

// Whether the products below take a matrix W [O, I] and rows of its type.
bool isSmallMatrix(const at::Tensor& w_OI, const at::Tensor& rows);
// y (+)= scale x W^T if `transposed`, else scale x W.
void smallProductInto(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w_OI,
                      bool transposed, double scale, bool add);
// W [O, I] of any size arranged once for many products, and y (+)= x W^T with it.
at::Tensor packForProducts(const at::Tensor& w_OI);
void packedForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& packed,
                       bool add);
// Whether smallWeightGradient() takes these, and dy^T x.
bool hasSmallGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);
at::Tensor smallWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI);

}  // namespace acoer
