// Part of body.h: numbers in memory, vectors of them, sums and exp.

#define ACOER_INLINE inline __attribute__((always_inline))

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

ACOER_INLINE float widen(Bf16 x) { return __builtin_bit_cast(float, uint32_t{x.bits} << 16); }
ACOER_INLINE float widen(float x) { return x; }
ACOER_INLINE double widen(double x) { return x; }
ACOER_INLINE float widen(int8_t x) { return x; }

// Round to nearest even; NaN stays NaN.
ACOER_INLINE void narrow(float x, Bf16& out) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
ACOER_INLINE void narrow(float x, float& out) { out = x; }
ACOER_INLINE void narrow(double x, double& out) { out = x; }

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
// As many elements of any type as Vec<A> has. Of a loop over a vector's elements GCC makes the
// instructions that widen bytes; __builtin_convertvector takes them one by one.
template <class A, class C>
ACOER_INLINE Vec<A> loadAs(const C* p) {
  if constexpr (std::is_same_v<C, int8_t>) {
    int32_t lanes[kLanes<A>];
    for (int c = 0; c < kLanes<A>; ++c) lanes[c] = p[c];
    typename NarrowOf<int32_t, A>::type codes;
    __builtin_memcpy(&codes, lanes, sizeof(codes));
    return __builtin_convertvector(codes, Vec<A>);
  } else if constexpr (std::is_arithmetic_v<C> && !std::is_same_v<C, A>) {
    typename NarrowOf<C, A>::type narrow;
    __builtin_memcpy(&narrow, p, sizeof(narrow));
    return __builtin_convertvector(narrow, Vec<A>);
  } else {
    return load(p);
  }
}
template <class A>
ACOER_INLINE void store(A* p, Vec<A> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
template <class A>
ACOER_INLINE Vec<A> splat(A x) {
  return x - Vec<A>{};
}
// Those of a narrow type are rounded to it.
template <class A, std::enable_if_t<std::is_arithmetic_v<A>, int> = 0>
ACOER_INLINE void storeNarrow(A* p, Vec<A> v) {
  store(p, v);
}
ACOER_INLINE Vec<uint32_t> bf16Bits(Vec<float> v) {
  const Vec<uint32_t> bits = (Vec<uint32_t>)v;
  const Vec<uint32_t> rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? Vec<uint32_t>{} + 0x7fc0u : rounded;
}
ACOER_INLINE void storeNarrow(Bf16* p, Vec<float> v) {
  const auto bits = __builtin_convertvector(bf16Bits(v), typename NarrowOf<uint16_t, float>::type);
  __builtin_memcpy(p, &bits, sizeof(bits));
}
// x rounded to T.
template <class T>
ACOER_INLINE Vec<Acc<T>> rounded(Vec<Acc<T>> x) {
  if constexpr (std::is_arithmetic_v<T>) {
    return x;
  } else {
    return (Vec<float>)(bf16Bits(x) << 16);
  }
}

// The `left` elements of a row from here on, if they are fewer than a vector: zeros beyond them.
template <class T>
ACOER_INLINE Vec<Acc<T>> loadPart(const T* p, int64_t left) {
  constexpr int kW = kLanes<Acc<T>>;
  if (left >= kW) return load(p);
  Acc<T> lanes[kW] = {};
  for (int64_t c = 0; c < left; ++c) lanes[c] = widen(p[c]);
  return load(lanes);
}
template <class T>
ACOER_INLINE void storePart(T* p, Vec<Acc<T>> v, int64_t left) {
  constexpr int kW = kLanes<Acc<T>>;
  if (left >= kW) return storeNarrow(p, v);
  Acc<T> lanes[kW];
  store(lanes, v);
  for (int64_t c = 0; c < left; ++c) narrow(lanes[c], p[c]);
}

// Calls visit(i, left) for each vector of a row of `width` elements, the last of which may be
// shorter.
template <class A, class Visit>
ACOER_INLINE void forEachPart(int64_t width, const Visit& visit) {
  constexpr int64_t kW = kLanes<A>;
  int64_t i = 0;
  for (; i + kW <= width; i += kW) visit(i, kW);
  if (i < width) visit(i, width - i);
}

// Lanes whose numbers differ in the bit kBit change places.
template <class A, int kBit, int... kLane>
ACOER_INLINE Vec<A> swapLanes(Vec<A> v, std::integer_sequence<int, kLane...>) {
  return Vec<A>{v[kLane ^ kBit]...};
}
template <class A, int kBit>
ACOER_INLINE Vec<A> swapLanes(Vec<A> v) {
  return swapLanes<A, kBit>(v, std::make_integer_sequence<int, kLanes<A>>{});
}
// Halves are added to halves, as a tree.
template <class A, int kBit = kLanes<A> / 2>
ACOER_INLINE A sumLanes(Vec<A> v) {
  if constexpr (kBit == 0) {
    return v[0];
  } else {
    return sumLanes<A, kBit / 2>(v + swapLanes<A, kBit>(v));
  }
}
// A sum in two chains that take turns, so that an addition need not wait for the last one.
template <class A>
struct VecSum {
  Vec<A> next = {}, waiting = {};
  ACOER_INLINE void add(Vec<A> v) {
    const Vec<A> added = next + v;
    next = waiting;
    waiting = added;
  }
  ACOER_INLINE A total() const { return sumLanes<A>(next + waiting); }
};
template <class A, int kBit = kLanes<A> / 2>
ACOER_INLINE A largestLane(Vec<A> v) {
  if constexpr (kBit == 0) {
    return v[0];
  } else {
    const Vec<A> other = swapLanes<A, kBit>(v);
    return largestLane<A, kBit / 2>(v > other ? v : other);
  }
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

// A mask of the first `count` lanes.
template <class A, int... kLane>
ACOER_INLINE auto firstLanes(int64_t count, std::integer_sequence<int, kLane...>) {
  using Int = typename ExpConstants<A>::Int;
  return Vec<Int>{kLane...} < static_cast<Int>(count);
}
template <class A>
ACOER_INLINE auto firstLanes(int64_t count) {
  return firstLanes<A>(count, std::make_integer_sequence<int, kLanes<A>>{});
}

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
