// The backward of RMSNorm against float64 and against the roundings of backwardOps in
// native/core/ops/norm.cpp.
#include "kernels/norm_backward.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

template <class T>
void checkNormBackward(int rows, int width, bool withResidual) {
  const std::string what =
      "norm backward of " + std::to_string(rows) + " x " + std::to_string(width);
  constexpr bool fp32 = std::is_same_v<T, float>;
  const auto N = static_cast<size_t>(rows), D = static_cast<size_t>(width);
  emu::Data data(static_cast<uint64_t>(rows * 10000 + width));
  std::vector<T> x = data.normals<T>(N * D, 0.1, 2);
  x[D / 2] = emu::toStorage<T>(300);
  const std::vector<T> dy = data.normals<T>(N * D), weight = data.normals<T>(D, 1, 0.3);
  const std::vector<T> residual = data.normals<T>(N * D, 0, 0.5);
  std::vector<float> inverse(N);
  for (size_t n = 0; n < N; ++n) {
    double squares = 0;
    for (size_t d = 0; d < D; ++d) squares += std::pow(emu::toDouble(x[n * D + d]), 2);
    inverse[n] = static_cast<float>(1 / std::sqrt(squares / width));
  }
  std::vector<T> dx = emu::unwritten<T>(N * D);
  const NormBackwardArgs args{.dy_ND = dy.data(),
                              .x_ND = x.data(),
                              .inverseRms_N = inverse.data(),
                              .weight_D = weight.data(),
                              .residual_ND = withResidual ? residual.data() : nullptr,
                              .dx_ND = dx.data(),
                              .width = width};
  emu::launch(fp32 ? acoer_norm_backward_fp32 : acoer_norm_backward_bf16,
              dim3(static_cast<unsigned>(rows)), dim3(kNormThreads), 0, args);

  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    const T *dyRow = &dy[n * D], *xRow = &x[n * D];
    const double r = inverse[n];
    double mean = 0, meanSize = 0;
    for (size_t d = 0; d < D; ++d) {
      const double product =
          emu::toDouble(dyRow[d]) * emu::toDouble(weight[d]) * emu::toDouble(xRow[d]) * r / width;
      mean += product;
      meanSize += std::abs(product);
    }
    for (size_t d = 0; d < D; ++d) {
      const double g = emu::toDouble(dyRow[d]) * emu::toDouble(weight[d]);
      const double normed = emu::toDouble(xRow[d]) * r, slope = (g - normed * mean) * r;
      const double rest = withResidual ? emu::toDouble(residual[n * D + d]) : 0;
      // fp32's roundings are relative to the terms of the difference and of the mean; to T are
      // rounded the slope and, with a residual, the sum.
      double bound = 2e-6 * r * (std::abs(g) + std::abs(normed) * meanSize) +
                     emu::kRounding<T> * std::abs(slope) * 1.01;
      if (withResidual) bound += emu::kRounding<T> * std::abs(slope + rest) * 1.01;
      const T found = dx[n * D + d];
      emu::expectNear(emu::toDouble(found), slope + rest, bound, what);
      if (!fp32) {
        roundings.add(found, emu::toStorage<T>(emu::toDouble(emu::toStorage<T>(slope)) + rest));
      }
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
      checkNormBackward<T>(rows, width, false);
      checkNormBackward<T>(17 - rows + 1, width, true);
    }
  });
}

}  // namespace

EMU_TEST(norm_backward_bf16) { checkSizes<Bf16>(); }
EMU_TEST(norm_backward_fp32) { checkSizes<float>(); }
