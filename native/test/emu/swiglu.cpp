// The SwiGLU kernel against float64 and against the roundings of swiglu in native/core/ops/ops.cpp.
#include "kernels/swiglu.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

template <class T>
void checkSwiglu(int rows, int width) {
  const std::string what = "swiglu of " + std::to_string(rows) + " x " + std::to_string(width);
  const auto N = static_cast<size_t>(rows), F = static_cast<size_t>(width);
  emu::Data data(static_cast<uint64_t>(rows * 10000 + width));
  std::vector<T> gateUp = data.normals<T>(N * 2 * F, 0, 3);
  gateUp[0] = emu::toStorage<T>(-95);  // exp(95) is infinite in fp32
  gateUp[1] = emu::toStorage<T>(95);
  std::vector<T> act = emu::unwritten<T>(N * F);
  const SwigluArgs args{.gateUp_N2F = gateUp.data(), .act_NF = act.data(), .width = width};
  constexpr bool fp32 = std::is_same_v<T, float>;
  emu::launch(fp32 ? acoer_swiglu_fp32 : acoer_swiglu_bf16,
              dim3(static_cast<unsigned>(rows), static_cast<unsigned>(swigluBlocks(width))),
              dim3(kSwigluThreads), 0, args);

  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    for (size_t f = 0; f < F; ++f) {
      const double gate = emu::toDouble(gateUp[n * 2 * F + f]);
      const double up = emu::toDouble(gateUp[n * 2 * F + F + f]);
      const double silu = gate / (1 + std::exp(-gate));
      const T found = act[n * F + f];
      // Two roundings to T. What fp32 cannot hold as a normal number may come out as zero.
      const double bound =
          (fp32 ? 2e-6 : 2.02 * emu::kRounding<T>)*std::abs(silu * up) + 1e-37 * std::abs(up);
      emu::expectNear(emu::toDouble(found), silu * up, bound, what);
      if (!fp32)
        roundings.add(found, emu::toStorage<T>(emu::toDouble(emu::toStorage<T>(silu)) * up));
    }
  }
  roundings.expect(what);
}

template <class T>
void checkSizes() {
  emu::forEachSchedule([] {
    int rows = 0;
    for (const int width : {8, 64, 192, 1088, 2040, 2048, 2056, 3072, 4160}) {
      checkSwiglu<T>(rows++ % 17 + 1, width);
    }
  });
}

}  // namespace

EMU_TEST(swiglu_bf16) { checkSizes<Bf16>(); }
EMU_TEST(swiglu_fp32) { checkSizes<float>(); }
EMU_TEST(swiglu_any_row_count) {
  for (int rows = 1; rows <= 17; ++rows) checkSwiglu<Bf16>(rows, 64 * rows);
}
