// Products in AMX tiles. The operating system must have been asked for them before (see
// choice.cpp).
#include "kernels/cpu/sets.h"

#ifdef ACOER_AMX
#pragma GCC target( \
    "amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#pragma GCC optimize("O3")
namespace acoer::kernels::amx {
namespace {
constexpr int kVectorBytes = 64;
// clang-format off: the order matters
#include "kernels/cpu/vector_body.h"
#include "kernels/cpu/quantised_body.h"
#include "kernels/cpu/bf16_products_body.h"
#include "kernels/cpu/bf16_products_amx_body.h"
// clang-format on

// The intrinsics take the numbers of tiles as text, so a template cannot pass them.
struct Hardware {
  struct Session {
    Session() {
      struct {
        uint8_t palette = 1, startRow = 0, reserved[14] = {};
        uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      } const shapes;
      static_assert(sizeof(shapes) == 64);
      asm volatile("ldtilecfg %0" ::"m"(shapes));
    }
    ~Session() { asm volatile("tilerelease"); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };
  template <int kTile>
  static ACOER_INLINE void clear() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static ACOER_INLINE void load(const void* rows, int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(kTile), "r"(rows), "r"(stride) : "memory");
  }
  template <int kTile>
  static ACOER_INLINE void store(void* rows, int64_t stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(kTile), "r"(rows), "r"(stride) : "memory");
  }
  // sums += x W, pairs by pairs.
  template <int kSums, int kX, int kW>
  static ACOER_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kW));
  }
};

}  // namespace
constinit const ProductKernels kProducts = productTable<AmxTile<Hardware>>();
}  // namespace acoer::kernels::amx
#endif
