// The RMSNorm kernel against float64 and against the roundings of
// rmsRotateByTensorOps in native/core/ops/norm.cpp.
#include "kernels/norm.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

constexpr float kEps = 1e-6f;

template <class T>
void checkNorm(int rows, int width, bool withDelta) {
  const std::string what = "norm of " + std::to_string(rows) + " x " + std::to_string(width);
  const auto N = static_cast<size_t>(rows), D = static_cast<size_t>(width);
  emu::Data data(static_cast<uint64_t>(rows * 10000 + width));
  // A model's residual stream has a few values that are far larger than the rest.
  std::vector<T> x = data.normals<T>(N * D, 0.1, 2);
  x[D / 2] = emu::toStorage<T>(300);
  const std::vector<T> delta = data.normals<T>(N * D), weight = data.normals<T>(D, 1, 0.3);
  std::vector<T> expectedX = x;
  for (size_t i = 0; withDelta && i < N * D; ++i) {
    expectedX[i] = emu::toStorage<T>(emu::toDouble(x[i]) + emu::toDouble(delta[i]));
  }
  std::vector<T> normed = emu::unwritten<T>(N * D);
  std::vector<float> inverseRms = emu::unwritten<float>(N);
  const NormArgs args{.x_ND = x.data(),
                      .delta_ND = withDelta ? delta.data() : nullptr,
                      .weight_D = weight.data(),
                      .normed_ND = normed.data(),
                      .width = width,
                      .eps = kEps,
                      .inverseRms_N = withDelta ? inverseRms.data() : nullptr};
  constexpr bool fp32 = std::is_same_v<T, float>;
  emu::launch(fp32 ? acoer_norm_fp32 : acoer_norm_bf16, dim3(static_cast<unsigned>(rows)),
              dim3(kNormThreads), 0, args);

  emu::expectSame(x, expectedX, what + ": x");
  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    double squares = 0;
    for (size_t d = 0; d < D; ++d) squares += std::pow(emu::toDouble(expectedX[n * D + d]), 2);
    const double scale = 1 / std::sqrt(squares / width + kEps);
    if (withDelta) emu::expectNear(inverseRms[n], scale, 1e-6 * scale, what + ": 1 / rms");
    for (size_t d = 0; d < D; ++d) {
      const double value = emu::toDouble(expectedX[n * D + d]) * scale;
      const double factor = emu::toDouble(weight[d]);
      const T found = normed[n * D + d];
      // The product and its multiple of the weight are rounded to T. In fp32 the sum of squares and
      // the root add some roundings of their own.
      const double bound = (fp32 ? 2e-6 : 2.02 * emu::kRounding<T>)*std::abs(value * factor);
      emu::expectNear(emu::toDouble(found), value * factor, bound, what);
      const double product = emu::toDouble(emu::toStorage<T>(value));
      if (!fp32) roundings.add(found, emu::toStorage<T>(product * factor));
    }
  }
  roundings.expect(what);
}

template <class T>
void checkSizes() {
  emu::forEachSchedule([] {
    int rows = 0;
    for (const int width : {64, 192, 320, 1024, 1088, 1984, 2048, 2560, 4160}) {
      rows = rows % 17 + 1;
      checkNorm<T>(rows, width, false);
      checkNorm<T>(17 - rows + 1, width, true);
    }
  });
}

}  // namespace

EMU_TEST(norm_bf16) { checkSizes<Bf16>(); }
EMU_TEST(norm_fp32) { checkSizes<float>(); }
EMU_TEST(norm_any_row_count) {
  for (int rows = 1; rows <= 17; ++rows) checkNorm<Bf16>(rows, 64 * rows, rows % 2 == 0);
}
