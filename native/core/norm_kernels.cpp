#include "norm_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <vector>

// The same loops are compiled for three instruction sets; one is selected when the library is
// loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ACOER_CLONES \
  __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define ACOER_CLONES
#endif
#define ACOER_INLINE inline __attribute__((always_inline))

namespace acoer {

namespace {

// Tokens per unit of work; fixed, so that sums over tokens are always grouped in the same way.
constexpr int64_t kBlock = 64;

// Rotates the pairs (i, i + K/2) by the angle, or by its negative for the transpose.
template <typename T>
ACOER_INLINE void rotateRow(T* row, const T* cosines, const T* sines, int64_t width, T sign) {
  const int64_t half = width / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const T a = row[i], b = row[i + half], sine = sign * sines[i];
    row[i] = a * cosines[i] - b * sine;
    row[i + half] = b * cosines[i] + a * sine;
  }
}

template <typename T>
ACOER_INLINE void forwardBlock(const Rows<const T>& x, const T* weight, T eps,
                               const Rotation<T>& rotation, const Rows<T>& y, T* inverseRms,
                               int64_t from, int64_t to) {
  const int64_t width = x.width;
  for (int64_t t = from; t < to; ++t) {
    for (int64_t h = 0; h < x.heads; ++h) {
      const T* in = x.row(t, h);
      T* out = y.row(t, h);
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += in[i] * in[i];
      const T r = 1 / std::sqrt(sum / static_cast<T>(width) + eps);
      inverseRms[t * x.heads + h] = r;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) out[i] = in[i] * r * weight[i];
      if (rotation.cos) {
        rotateRow(out, rotation.cos + t * width, rotation.sin + t * width, width, T(1));
      }
    }
  }
}

// With n = x r and g = dy w: dx = r (g - n mean(g n)).
template <typename T>
ACOER_INLINE void backwardBlock(const Rows<const T>& dy, const Rows<const T>& x,
                                const T* inverseRms, const T* weight, const Rotation<T>& rotation,
                                const T* residual, const Rows<T>& dx, T* dWeight, T* g,
                                int64_t from, int64_t to) {
  const int64_t width = x.width;
  for (int64_t t = from; t < to; ++t) {
    for (int64_t h = 0; h < x.heads; ++h) {
      const T *in = x.row(t, h), *slope = dy.row(t, h);
      T* out = dx.row(t, h);
      const T r = inverseRms[t * x.heads + h];
      std::copy(slope, slope + width, g);
      if (rotation.cos) {
        rotateRow(g, rotation.cos + t * width, rotation.sin + t * width, width, T(-1));
      }
      if (dWeight) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) dWeight[i] += g[i] * in[i] * r;
      }
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) {
        g[i] *= weight[i];
        sum += g[i] * in[i];
      }
      const T mean = sum * r * r / static_cast<T>(width);
      const T* add = residual ? residual + (out - dx.data) : nullptr;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) out[i] = r * (g[i] - in[i] * mean);
      if (add) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) out[i] += add[i];
      }
    }
  }
}

#define ACOER_DEFINE_BLOCKS(T)                                                                    \
  ACOER_CLONES void forwardBlockFor(const Rows<const T>& x, const T* weight, T eps,               \
                                    const Rotation<T>& rotation, const Rows<T>& y, T* r,          \
                                    int64_t from, int64_t to) {                                   \
    forwardBlock<T>(x, weight, eps, rotation, y, r, from, to);                                    \
  }                                                                                               \
  ACOER_CLONES void backwardBlockFor(const Rows<const T>& dy, const Rows<const T>& x, const T* r, \
                                     const T* weight, const Rotation<T>& rotation,                \
                                     const T* residual, const Rows<T>& dx, T* dWeight, T* g,      \
                                     int64_t from, int64_t to) {                                  \
    backwardBlock<T>(dy, x, r, weight, rotation, residual, dx, dWeight, g, from, to);             \
  }
ACOER_DEFINE_BLOCKS(float)
ACOER_DEFINE_BLOCKS(double)
#undef ACOER_DEFINE_BLOCKS

}  // namespace

template <typename T>
void rmsRotateForward(const Rows<const T>& x, const T* weight, double eps,
                      const Rotation<T>& rotation, const Rows<T>& y, T* inverseRms) {
  at::parallel_for(0, x.tokens, kBlock, [&](int64_t from, int64_t to) {
    forwardBlockFor(x, weight, static_cast<T>(eps), rotation, y, inverseRms, from, to);
  });
}

template <typename T>
void rmsRotateBackward(const Rows<const T>& dy, const Rows<const T>& x, const T* inverseRms,
                       const T* weight, const Rotation<T>& rotation, const T* residual,
                       const Rows<T>& dx, T* dWeight) {
  const int64_t blocks = (x.tokens + kBlock - 1) / kBlock, width = x.width;
  std::vector<T> partial(static_cast<size_t>(dWeight ? blocks * width : 0));
  at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
    std::vector<T> scratch(static_cast<size_t>(width));
    for (int64_t block = from; block < to; ++block) {
      backwardBlockFor(dy, x, inverseRms, weight, rotation, residual, dx,
                       dWeight ? partial.data() + block * width : nullptr, scratch.data(),
                       block * kBlock, std::min(x.tokens, (block + 1) * kBlock));
    }
  });
  for (size_t i = 0; i < partial.size(); ++i) dWeight[i % static_cast<size_t>(width)] += partial[i];
}

template void rmsRotateForward(const Rows<const float>&, const float*, double,
                               const Rotation<float>&, const Rows<float>&, float*);
template void rmsRotateForward(const Rows<const double>&, const double*, double,
                               const Rotation<double>&, const Rows<double>&, double*);
template void rmsRotateBackward(const Rows<const float>&, const Rows<const float>&, const float*,
                                const float*, const Rotation<float>&, const float*,
                                const Rows<float>&, float*);
template void rmsRotateBackward(const Rows<const double>&, const Rows<const double>&, const double*,
                                const double*, const Rotation<double>&, const double*,
                                const Rows<double>&, double*);

}  // namespace acoer
