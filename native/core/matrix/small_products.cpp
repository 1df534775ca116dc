#include "matrix/small_products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/dispatch.h"

namespace acoer {
namespace {

// 1 MB in fp32.
constexpr int64_t kMostElements = int64_t{1} << 18;
// Rows that pass through all columns together, so that they stay in the cache next to the matrix.
constexpr int64_t kRows = 128;
// Rows that are summed at a time in a gradient; fixed, so that sums are always grouped in one way.
constexpr int64_t kSummedRows = 128;
// Below this a parallel region costs more than it saves.
constexpr int64_t kParallelFlops = int64_t{1} << 23;

int64_t grainFor(int64_t flopsPerItem) {
  return std::max<int64_t>(8, kParallelFlops / std::max<int64_t>(1, flopsPerItem));
}

template <class T>
int64_t packedSize(int64_t columns, int64_t depth) {
  const int64_t width = kernels::mathKernels<T>().panelWidth;
  return (columns + width - 1) / width * width * depth;
}

// One per thread, and reused: a fresh allocation of this size costs page faults.
template <class T>
T* scratch(int64_t size) {
  thread_local std::vector<T> own;
  if (own.size() < static_cast<size_t>(size)) own.resize(static_cast<size_t>(size));
  return own.data();
}

bool rowsAreContiguous(const at::Tensor& t) { return t.dim() == 2 && t.stride(1) == 1; }

// y (+)= x times `packed`.
template <class T>
void multiply(const at::Tensor& x, const T* packed, const at::Tensor& y, bool add) {
  const auto gemm = kernels::mathKernels<T>().gemm;
  const T* from = x.const_data_ptr<T>();
  T* to = y.data_ptr<T>();
  const int64_t ldx = x.stride(0), ldy = y.stride(0), columns = y.size(1), depth = x.size(1);
  at::parallel_for(0, x.size(0), grainFor(2 * columns * depth), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += kRows) {
      gemm(from + row * ldx, ldx, packed, to + row * ldy, ldy, std::min(kRows, end - row), columns,
           depth, add);
    }
  });
}

}  // namespace

bool isSmallMatrix(const at::Tensor& w_OI, const at::Tensor& rows) {
  return w_OI.is_cpu() && hasMathType(w_OI) && rowsAreContiguous(w_OI) &&
         w_OI.numel() <= kMostElements && rows.scalar_type() == w_OI.scalar_type() &&
         rowsAreContiguous(rows);
}

void smallProductInto(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w_OI,
                      bool transposed, double scale, bool add) {
  const int64_t columns = w_OI.size(transposed ? 0 : 1), depth = w_OI.size(transposed ? 1 : 0);
  withMathType(x, [&](auto type) {
    using T = decltype(type);
    const auto& math = kernels::mathKernels<T>();
    T* packed = scratch<T>(packedSize<T>(columns, depth));
    (transposed ? math.pack : math.packTransposed)(w_OI.const_data_ptr<T>(), w_OI.stride(0),
                                                   columns, depth, static_cast<T>(scale), packed);
    multiply<T>(x, packed, y, add);
  });
}

at::Tensor packForProducts(const at::Tensor& w_OI) {
  const int64_t outputs = w_OI.size(0), inputs = w_OI.size(1);
  at::Tensor packed;
  withMathType(w_OI, [&](auto type) {
    using T = decltype(type);
    packed = at::empty({packedSize<T>(outputs, inputs)}, w_OI.options());
    kernels::mathKernels<T>().pack(w_OI.const_data_ptr<T>(), w_OI.stride(0), outputs, inputs, T(1),
                                   packed.mutable_data_ptr<T>());
  });
  return packed;
}

void packedForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& packed,
                       bool add) {
  withMathType(x_TI, [&](auto type) {
    using T = decltype(type);
    multiply<T>(x_TI, packed.const_data_ptr<T>(), y_TO, add);
  });
}

bool hasSmallGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  return dy_TO.is_cpu() && hasMathType(dy_TO) && rowsAreContiguous(dy_TO) &&
         rowsAreContiguous(x_TI) && dy_TO.size(1) * x_TI.size(1) <= kMostElements;
}

at::Tensor smallWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  const int64_t tokens = dy_TO.size(0), outputs = dy_TO.size(1), inputs = x_TI.size(1);
  const at::Tensor dW_OI = at::zeros({outputs, inputs}, dy_TO.options());
  withMathType(dy_TO, [&](auto type) {
    using T = decltype(type);
    const auto& math = kernels::mathKernels<T>();
    const int64_t ldy = dy_TO.stride(0), ldx = x_TI.stride(0);
    const T *dy = dy_TO.const_data_ptr<T>(), *x = x_TI.const_data_ptr<T>();
    T* dW = dW_OI.data_ptr<T>();
    at::parallel_for(0, outputs, grainFor(2 * tokens * inputs), [&](int64_t begin, int64_t end) {
      T* packed = scratch<T>(packedSize<T>(inputs, kSummedRows));
      for (int64_t t = 0; t < tokens; t += kSummedRows) {
        const int64_t depth = std::min(kSummedRows, tokens - t);
        math.packTransposed(x + t * ldx, ldx, inputs, depth, T(1), packed);
        math.gemmTransposed(dy + t * ldy + begin, ldy, packed, dW + begin * inputs, inputs,
                            end - begin, inputs, depth, true);
      }
    });
  });
  return dW_OI;
}

}  // namespace acoer
