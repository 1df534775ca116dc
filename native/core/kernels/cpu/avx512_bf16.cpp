// Products with the instruction of AVX-512-BF16, which adds the products of a pair to a fp32 sum.
#include "kernels/cpu/sets.h"

#ifdef ACOER_AVX512_BF16
#include <immintrin.h>
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#pragma GCC optimize("O3")
namespace acoer::kernels::avx512_bf16 {
namespace {
constexpr int kVectorBytes = 64;
// clang-format off: the order matters
#include "kernels/cpu/vector_body.h"
#include "kernels/cpu/quantised_body.h"
#include "kernels/cpu/bf16_products_body.h"
// clang-format on

struct PairStep {
  using X = Bf16;
  static constexpr bool kWidens = false;

  static void take(const Bf16* x, int64_t count, Bf16* out) {
    __builtin_memcpy(out, x, static_cast<std::size_t>(count) * sizeof(Bf16));
  }

  template <int kCount, int kVectors>
  static ACOER_INLINE void add(Vec<float> (&acc)[kCount][kVectors], const Bf16* x,
                               const Vec<uint32_t> (&both)[kVectors]) {
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
      int pair;
      __builtin_memcpy(&pair, x + r * 2 * kBlockPairs, sizeof(pair));
      const auto value = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = (Vec<float>)_mm512_dpbf16_ps((__m512)acc[r][v], (__m512bh)both[v], value);
      }
    }
  }
};

}  // namespace
constinit const ProductKernels kProducts = productTable<VectorTile<PairStep>>();
}  // namespace acoer::kernels::avx512_bf16
#endif
