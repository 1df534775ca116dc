// Products of quantised matrices with the project's CUDA kernels, bf16 and fp32, on the stream that
// libtorch's operations use.
//
// Few rows are multiplied straight from the codes; more of them by the library, after the matrix
// has been dequantised into scratch memory. Both multiply the same weights (decision 0296).
#pragma once

#include <ATen/core/Tensor.h>

#include "matrix/quantised.h"

namespace acoer {

class GpuKernels;
struct Into;

// What all quantised matrices of a model share on a card: memory for the plain weights of the
// largest, and nf4's tables. CUDA graphs hold its addresses, so matrices come to it before the
// first product. Products that use it are started on one stream, one after the other.
class QuantisedScratch {
 public:
  // A matrix that is to find room.
  void add(const Quantised& quantised);
  // Takes the memory, which the first product does else.
  void reserve(at::Device device, at::ScalarType type);
  // [O, I] of the model's type, where the matrix is; the next product overwrites what it holds.
  at::Tensor plain(const Quantised& quantised, at::ScalarType type);
  // nf4Table() and dynamicMap() in fp32.
  const at::Tensor& tables(const Quantised& quantised, at::ScalarType type);

 private:
  int64_t numbers_ = 0;
  at::Tensor plain_, tables_;
};

// Whether the kernels take this matrix for rows of `type`.
bool fitsGpuKernels(const Quantised& quantised, at::ScalarType type);

// Matrix::forwardInto() and backwardInto(); W as `type` holds it.
void gpuForwardInto(const GpuKernels& kernels, const Quantised& quantised,
                    QuantisedScratch& scratch, const at::Tensor& y_TO, const at::Tensor& x_TI,
                    const Into& into);
void gpuBackwardInto(const GpuKernels& kernels, const Quantised& quantised,
                     QuantisedScratch& scratch, const at::Tensor& dx_TI, const at::Tensor& dy_TO,
                     const Into& into);

// The launches themselves.
// w = W, [O, I] of bf16 or fp32.
void startDequantise(const GpuKernels& kernels, const Quantised& quantised,
                     const at::Tensor& tables, const at::Tensor& w_OI);
// y = scale x W^T + (y or the bias or nothing). Rows of x begin at multiples of 16 bytes.
void startQuantisedProduct(const GpuKernels& kernels, const Quantised& quantised,
                           const at::Tensor& tables, const at::Tensor& y_TO, const at::Tensor& x_TI,
                           const Into& into);

}  // namespace acoer
