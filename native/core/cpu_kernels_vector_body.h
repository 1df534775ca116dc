// Part of a set of kernels: vector types, sums and exp.

template <class A>
struct VectorOf {
  typedef A type __attribute__((vector_size(kVectorBytes)));
};
template <class A>
using Vec = typename VectorOf<A>::type;
template <class A>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));

// A vector of a narrow type with as many elements as Vec<A> has.
template <class Narrow, class A>
struct NarrowOf {
  typedef Narrow type __attribute__((vector_size(kVectorBytes / sizeof(A) * sizeof(Narrow))));
};

#include "bf16_convert_body.h"

// Not for Bf16, of which Clang would make a vector before it looks at the next one.
template <class A, std::enable_if_t<std::is_arithmetic_v<A>, int> = 0>
ACOER_INLINE Vec<A> load(const A* p) {
  Vec<A> v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
ACOER_INLINE Vec<float> load(const Bf16* p) {
  typename NarrowOf<uint16_t, float>::type bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return (Vec<float>)(__builtin_convertvector(bits, Vec<uint32_t>) << 16);
}
template <class A>
ACOER_INLINE void store(A* p, Vec<A> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
template <class A>
ACOER_INLINE Vec<A> splat(A x) {
  return x - Vec<A>{};
}
// Halves are added to halves, as a tree.
template <class A>
ACOER_INLINE A sumLanes(Vec<A> v) {
  A lanes[kLanes<A>];
  store(lanes, v);
  for (int width = kLanes<A> / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <class A>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Int = int32_t;
  static constexpr float kLow = -87.0f, kHigh = 88.0f, kMagic = 12582912.0f;
  static constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860682030941723e-6f;
  static constexpr int kMantissa = 23, kBias = 127, kDegree = 7;
};
template <>
struct ExpConstants<double> {
  using Int = int64_t;
  static constexpr double kLow = -708.0, kHigh = 709.0, kMagic = 6755399441055744.0;
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissa = 52, kBias = 1023, kDegree = 13;
};

constexpr double kInverseFactorial[] = {1.0,
                                        1.0,
                                        1.0 / 2,
                                        1.0 / 6,
                                        1.0 / 24,
                                        1.0 / 120,
                                        1.0 / 720,
                                        1.0 / 5040,
                                        1.0 / 40320,
                                        1.0 / 362880,
                                        1.0 / 3628800,
                                        1.0 / 39916800,
                                        1.0 / 479001600,
                                        1.0 / 6227020800.0};

// 2^n * exp(r) with |r| <= ln(2)/2 and exp(r) as its Taylor series: within 2 ulp. Arguments are
// clamped to the range without overflow and underflow; NaN stays NaN.
template <class A>
ACOER_INLINE Vec<A> vectorExp(Vec<A> x) {
  using C = ExpConstants<A>;
  using Ints = Vec<typename C::Int>;
  x = x < splat(C::kLow) ? splat(C::kLow) : x;
  x = x > splat(C::kHigh) ? splat(C::kHigh) : x;
  const Vec<A> shifted = x * static_cast<A>(1.44269504088896340736) + C::kMagic;
  const Vec<A> n = shifted - C::kMagic;
  const Vec<A> r = (x - n * C::kLn2High) - n * C::kLn2Low;
  Vec<A> p = splat(static_cast<A>(kInverseFactorial[C::kDegree]));
#pragma GCC unroll 16
  for (int k = C::kDegree - 1; k >= 0; --k) p = p * r + static_cast<A>(kInverseFactorial[k]);
  const Ints exponent = (Ints)shifted - (Ints)splat(C::kMagic);
  return p * (Vec<A>)((exponent + C::kBias) << C::kMantissa);
}
