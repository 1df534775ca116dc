// RMS norm, a rotation, or one after the other, over rows in memory, on a CPU: one visit to memory
// where tensor operations need five to ten. T is the type in memory, Acc<T> that of sums; forward
// rounds to T after every operation, as decoding does, backward once.
#pragma once

#include <cstdint>

#include "cpu_kernels.h"

namespace acoer {

using kernels::Acc;

// `heads` rows of `width` values for each of `tokens`; strides are in values.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t tokens = 0, heads = 0, width = 0;
  int64_t tokenStride = 0, headStride = 0;
  T* row(int64_t token, int64_t head) const {
    return data + token * tokenStride + head * headStride;
  }
};

// cos and sin [tokens, width]; null: no rotation.
template <typename T>
struct Rotation {
  const T* cos = nullptr;
  const T* sin = nullptr;
};

// y = rotate(x * r * weight) with r = 1 / rms(x), kept in `inverseRms` [tokens * heads]. A null
// `weight`, here and below: y = rotate(x), and nothing is kept.
template <typename T>
void rmsRotateForward(const Rows<const T>& x, const T* weight, double eps,
                      const Rotation<T>& rotation, const Rows<T>& y, Acc<T>* inverseRms);

// dx = dL/dx from dy = dL/dy, plus `residual` (laid out like dx) if it is not null. Adds to
// `dWeight` [width] if it is not null. Sums do not depend on the number of threads.
template <typename T>
void rmsRotateBackward(const Rows<const T>& dy, const Rows<const T>& x, const Acc<T>* inverseRms,
                       const T* weight, const Rotation<T>& rotation, const T* residual,
                       const Rows<T>& dx, Acc<T>* dWeight);

}  // namespace acoer
