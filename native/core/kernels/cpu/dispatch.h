// From tensors to the CPU kernels, which take pointers to their own number types.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "kernels/cpu/kernels.h"

namespace acoer {

// Calls `visit` with a value of the kernels' type for `dtype`; false if there is none.
template <class Visit>
bool withKernelType(at::ScalarType dtype, const Visit& visit) {
  switch (dtype) {
    case at::kFloat:
      visit(float{});
      return true;
    case at::kDouble:
      visit(double{});
      return true;
    case at::kBFloat16:
      visit(kernels::Bf16{});
      return true;
    default:
      return false;
  }
}

// Calls `visit` with a value of the type of `t`, which is one that MathKernels exist for: fp32 or
// fp64.
template <class Visit>
void withMathType(const at::Tensor& t, const Visit& visit) {
  if (t.scalar_type() == at::kDouble) {
    visit(double{});
  } else {
    visit(float{});
  }
}
inline bool hasMathType(const at::Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
}

// How many rows of so many elements are worth starting another thread for.
inline int64_t rowGrain(int64_t elements) {
  return std::max<int64_t>(1, (int64_t{1} << 15) / std::max<int64_t>(1, elements));
}

// The kernels' types are not libtorch's, so it cannot check them.
template <class T>
const T* readPointer(const at::Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <class T>
T* writePointer(const at::Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

}  // namespace acoer
