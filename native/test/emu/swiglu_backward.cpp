// The backward of SwiGLU against float64 and against the roundings of swigluBackward in
// native/core/ops/norm.cpp.
#include "kernels/swiglu_backward.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

template <class T>
void checkSwigluBackward(int rows, int width) {
  const std::string what =
      "swiglu backward of " + std::to_string(rows) + " x " + std::to_string(width);
  constexpr bool fp32 = std::is_same_v<T, float>;
  const auto round = [](double x) { return emu::toDouble(emu::toStorage<T>(x)); };
  const auto N = static_cast<size_t>(rows), F = static_cast<size_t>(width);
  emu::Data data(static_cast<uint64_t>(rows * 10000 + width));
  std::vector<T> gateUp = data.normals<T>(N * 2 * F, 0, 3);
  gateUp[0] = emu::toStorage<T>(-95);  // exp(95) is infinite in fp32
  gateUp[1] = emu::toStorage<T>(95);
  const std::vector<T> dy = data.normals<T>(N * F);
  std::vector<T> found = emu::unwritten<T>(N * 2 * F);
  emu::launch(fp32 ? acoer_swiglu_backward_fp32 : acoer_swiglu_backward_bf16,
              dim3(static_cast<unsigned>(rows), static_cast<unsigned>(swigluBlocks(width))),
              dim3(kSwigluThreads), 0,
              SwigluBackwardArgs{.dy_NF = dy.data(),
                                 .gateUp_N2F = gateUp.data(),
                                 .dGateUp_N2F = found.data(),
                                 .width = width});
  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    for (size_t f = 0; f < F; ++f) {
      const size_t at = n * 2 * F + f;
      const double gate = emu::toDouble(gateUp[at]), up = emu::toDouble(gateUp[at + F]),
                   slope = emu::toDouble(dy[n * F + f]);
      const double s = 1 / (1 + std::exp(-gate)), factor = s * (1 + gate * (1 - s));
      const double dGate = slope * up * factor, dUp = gate * s * slope;
      // Two roundings to T each. In fp32, 1 - s and the sum lose digits where they nearly cancel:
      // the error is relative to their terms. What fp32 cannot hold may come out as zero.
      const double terms = s * (1 + std::abs(gate) * (1 - s) + std::abs(gate) * 0.2);
      const double tiny = 1e-37 * (1 + std::abs(up)) * (1 + std::abs(slope));
      const double roundings2 = fp32 ? 0 : 2.02 * emu::kRounding<T>;
      emu::expectNear(emu::toDouble(found[at]), dGate,
                      2e-6 * std::abs(slope * up) * terms + roundings2 * std::abs(dGate) + tiny,
                      what + ": dGate");
      emu::expectNear(emu::toDouble(found[at + F]), dUp, (2e-6 + roundings2) * std::abs(dUp) + tiny,
                      what + ": dUp");
      if (fp32) continue;
      roundings.add(found[at], emu::toStorage<T>(round(slope * up) * factor));
      roundings.add(found[at + F], emu::toStorage<T>(round(gate * s) * slope));
    }
  }
  roundings.expect(what);
}

template <class T>
void checkSizes() {
  emu::forEachSchedule([] {
    int rows = 0;
    for (const int width : {8, 64, 192, 1088, 2040, 2048, 2056, 3072, 4160}) {
      checkSwigluBackward<T>(rows++ % 17 + 1, width);
    }
  });
}

}  // namespace

EMU_TEST(swiglu_backward_bf16) { checkSizes<Bf16>(); }
EMU_TEST(swiglu_backward_fp32) { checkSizes<float>(); }
