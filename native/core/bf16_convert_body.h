// Part of a set of kernels and of norm_kernels.cpp: numbers in memory and in sums.

#define ACOER_INLINE inline __attribute__((always_inline))

ACOER_INLINE float widen(Bf16 x) { return __builtin_bit_cast(float, uint32_t{x.bits} << 16); }
ACOER_INLINE float widen(float x) { return x; }
ACOER_INLINE double widen(double x) { return x; }

// Round to nearest even; NaN stays NaN.
ACOER_INLINE void narrow(float x, Bf16& out) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
ACOER_INLINE void narrow(float x, float& out) { out = x; }
ACOER_INLINE void narrow(double x, double& out) { out = x; }

// x rounded to T.
template <class T>
ACOER_INLINE Acc<T> rounded(Acc<T> x) {
  T narrowed;
  narrow(x, narrowed);
  return widen(narrowed);
}
