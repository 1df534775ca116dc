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

namespace acoer {

namespace {

// Tokens per unit of work; fixed, so that sums over tokens are always grouped in the same way.
constexpr int64_t kBlock = 64;

using kernels::Bf16;

#include "bf16_convert_body.h"

// Rotates the pairs (i, i + K/2) by the angle. The row is in T or wider.
template <typename T, typename Value>
ACOER_INLINE void rotateRow(const Value* row, const T* cosines, const T* sines, int64_t width,
                            T* out) {
  const int64_t half = width / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const Acc<T> a = widen(row[i]), b = widen(row[i + half]);
    const Acc<T> cosine = widen(cosines[i]), sine = widen(sines[i]);
    narrow(rounded<T>(a * cosine) - rounded<T>(b * sine), out[i]);
    narrow(rounded<T>(b * cosine) + rounded<T>(a * sine), out[i + half]);
  }
}

// The transpose: by the negative angle, without rounding.
template <typename T>
ACOER_INLINE void rotateBack(Acc<T>* row, const T* cosines, const T* sines, int64_t width) {
  const int64_t half = width / 2;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const Acc<T> a = row[i], b = row[i + half], cosine = widen(cosines[i]), sine = widen(sines[i]);
    row[i] = a * cosine + b * sine;
    row[i + half] = b * cosine - a * sine;
  }
}

template <typename T>
ACOER_INLINE void forwardBlock(const Rows<const T>& x, const T* weight, Acc<T> eps,
                               const Rotation<T>& rotation, const Rows<T>& y, Acc<T>* inverseRms,
                               Acc<T>* normed, int64_t from, int64_t to) {
  const int64_t width = x.width;
  for (int64_t t = from; t < to; ++t) {
    for (int64_t h = 0; h < x.heads; ++h) {
      const T* in = x.row(t, h);
      T* out = y.row(t, h);
      if (!weight) {
        rotateRow<T>(in, rotation.cos + t * width, rotation.sin + t * width, width, out);
        continue;
      }
      Acc<T> sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) sum += widen(in[i]) * widen(in[i]);
      const Acc<T> r = 1 / std::sqrt(sum / static_cast<Acc<T>>(width) + eps);
      inverseRms[t * x.heads + h] = r;
      if (!rotation.cos) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) {
          narrow(rounded<T>(widen(in[i]) * r) * widen(weight[i]), out[i]);
        }
        continue;
      }
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        normed[i] = rounded<T>(rounded<T>(widen(in[i]) * r) * widen(weight[i]));
      }
      rotateRow<T>(normed, rotation.cos + t * width, rotation.sin + t * width, width, out);
    }
  }
}

// With n = x r and g = dy w: dx = r (g - n mean(g n)).
template <typename T>
ACOER_INLINE void backwardBlock(const Rows<const T>& dy, const Rows<const T>& x,
                                const Acc<T>* inverseRms, const T* weight,
                                const Rotation<T>& rotation, const T* residual, const Rows<T>& dx,
                                Acc<T>* dWeight, Acc<T>* g, int64_t from, int64_t to) {
  const int64_t width = x.width;
  for (int64_t t = from; t < to; ++t) {
    for (int64_t h = 0; h < x.heads; ++h) {
      const T *in = x.row(t, h), *slope = dy.row(t, h);
      T* out = dx.row(t, h);
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) g[i] = widen(slope[i]);
      if (rotation.cos) rotateBack<T>(g, rotation.cos + t * width, rotation.sin + t * width, width);
      if (!weight) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) narrow(g[i], out[i]);
        continue;
      }
      const Acc<T> r = inverseRms[t * x.heads + h];
      if (dWeight) {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) dWeight[i] += g[i] * widen(in[i]) * r;
      }
      Acc<T> sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < width; ++i) {
        g[i] *= widen(weight[i]);
        sum += g[i] * widen(in[i]);
      }
      const Acc<T> mean = sum * r * r / static_cast<Acc<T>>(width);
      if (residual) {
        const T* add = residual + (out - dx.data);
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) {
          narrow(r * (g[i] - widen(in[i]) * mean) + widen(add[i]), out[i]);
        }
      } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) narrow(r * (g[i] - widen(in[i]) * mean), out[i]);
      }
    }
  }
}

#define ACOER_DEFINE_BLOCKS(T)                                                                \
  ACOER_CLONES void forwardBlockFor(const Rows<const T>& x, const T* weight, Acc<T> eps,      \
                                    const Rotation<T>& rotation, const Rows<T>& y, Acc<T>* r, \
                                    Acc<T>* scratch, int64_t from, int64_t to) {              \
    forwardBlock<T>(x, weight, eps, rotation, y, r, scratch, from, to);                       \
  }                                                                                           \
  ACOER_CLONES void backwardBlockFor(                                                         \
      const Rows<const T>& dy, const Rows<const T>& x, const Acc<T>* r, const T* weight,      \
      const Rotation<T>& rotation, const T* residual, const Rows<T>& dx, Acc<T>* dWeight,     \
      Acc<T>* g, int64_t from, int64_t to) {                                                  \
    backwardBlock<T>(dy, x, r, weight, rotation, residual, dx, dWeight, g, from, to);         \
  }
ACOER_DEFINE_BLOCKS(float)
ACOER_DEFINE_BLOCKS(double)
ACOER_DEFINE_BLOCKS(Bf16)
#undef ACOER_DEFINE_BLOCKS

}  // namespace

template <typename T>
void rmsRotateForward(const Rows<const T>& x, const T* weight, double eps,
                      const Rotation<T>& rotation, const Rows<T>& y, Acc<T>* inverseRms) {
  at::parallel_for(0, x.tokens, kBlock, [&](int64_t from, int64_t to) {
    std::vector<Acc<T>> scratch(static_cast<size_t>(x.width));
    forwardBlockFor(x, weight, static_cast<Acc<T>>(eps), rotation, y, inverseRms, scratch.data(),
                    from, to);
  });
}

template <typename T>
void rmsRotateBackward(const Rows<const T>& dy, const Rows<const T>& x, const Acc<T>* inverseRms,
                       const T* weight, const Rotation<T>& rotation, const T* residual,
                       const Rows<T>& dx, Acc<T>* dWeight) {
  const int64_t blocks = (x.tokens + kBlock - 1) / kBlock, width = x.width;
  std::vector<Acc<T>> partial(static_cast<size_t>(dWeight ? blocks * width : 0));
  at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
    std::vector<Acc<T>> scratch(static_cast<size_t>(width));
    for (int64_t block = from; block < to; ++block) {
      backwardBlockFor(dy, x, inverseRms, weight, rotation, residual, dx,
                       dWeight ? partial.data() + block * width : nullptr, scratch.data(),
                       block * kBlock, std::min(x.tokens, (block + 1) * kBlock));
    }
  });
  for (size_t i = 0; i < partial.size(); ++i) dWeight[i % static_cast<size_t>(width)] += partial[i];
}

#define ACOER_INSTANTIATE(T)                                                                 \
  template void rmsRotateForward(const Rows<const T>&, const T*, double, const Rotation<T>&, \
                                 const Rows<T>&, Acc<T>*);                                   \
  template void rmsRotateBackward(const Rows<const T>&, const Rows<const T>&, const Acc<T>*, \
                                  const T*, const Rotation<T>&, const T*, const Rows<T>&,    \
                                  Acc<T>*);
ACOER_INSTANTIATE(float)
ACOER_INSTANTIATE(double)
ACOER_INSTANTIATE(Bf16)
#undef ACOER_INSTANTIATE

}  // namespace acoer
