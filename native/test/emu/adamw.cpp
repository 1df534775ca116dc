// The optimiser's kernels against float64.
#include "kernels/adamw.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

struct Parameter {
  std::vector<float> value, gradient, expAvg, expAvgSq;
};

struct Policy {
  std::vector<Parameter> parameters;
  std::vector<AdamWTensor> tensors;
  unsigned blocks = 0;
};

// Sizes on both sides of a block's; some parameters have no gradient.
Policy makePolicy(emu::Data& data) {
  Policy policy;
  for (const size_t size : {1ul, 5ul, 256ul, 8191ul, 8192ul, 8193ul, 20011ul, 3ul, 32ul}) {
    Parameter p{.value = data.normals<float>(size),
                .gradient = data.normals<float>(size % 7 == 4 ? 0 : size, 0, 1e-3),
                .expAvg = data.normals<float>(size, 0, 1e-3),
                .expAvgSq = data.normals<float>(size, 0, 1e-3)};
    for (float& square : p.expAvgSq) square *= square;
    policy.parameters.push_back(std::move(p));
  }
  for (Parameter& p : policy.parameters) {
    const auto count = static_cast<int64_t>(p.value.size());
    policy.tensors.push_back({p.value.data(), p.gradient.empty() ? nullptr : p.gradient.data(),
                              p.expAvg.data(), p.expAvgSq.data(), count, policy.blocks});
    policy.blocks += static_cast<unsigned>(adamWBlocks(count));
  }
  return policy;
}

std::vector<float> squaresOf(Policy& policy) {
  std::vector<float> sums = emu::unwritten<float>(policy.blocks);
  emu::launch(acoer_gradient_squares, dim3(policy.blocks), dim3(kAdamWThreads), 0,
              GradientSquaresArgs{policy.tensors.data(), sums.data(),
                                  static_cast<int32_t>(policy.tensors.size())});
  return sums;
}

// The clip is large enough to matter, the moments' corrections are those of step 3.
AdamWArgs argsOf(const Policy& policy) {
  return {.tensors = policy.tensors.data(),
          .tensorCount = static_cast<int32_t>(policy.tensors.size()),
          .clip = 0.37F,
          .keep = static_cast<float>(1 - 1e-3 * 0.01),
          .oneMinusBeta1 = static_cast<float>(1 - 0.9),
          .beta2 = 0.999F,
          .oneMinusBeta2 = static_cast<float>(1 - 0.999),
          .rootCorrection2 = static_cast<float>(std::sqrt(1 - std::pow(0.999, 3))),
          .eps = 1e-8F,
          .stepSize = static_cast<float>(1e-3 / (1 - std::pow(0.9, 3)))};
}

void checkElement(const AdamWArgs& a, const Parameter& before, const Parameter& after, size_t i) {
  constexpr double kUlp = 0x1p-24;
  const double g = before.gradient.empty() ? 0 : double{before.gradient[i]} * a.clip;
  const double average = before.expAvg[i] + double{a.oneMinusBeta1} * (g - before.expAvg[i]);
  const double square = double{before.expAvgSq[i]} * a.beta2 + double{a.oneMinusBeta2} * g * g;
  const double denominator = std::sqrt(square) / a.rootCorrection2 + a.eps;
  const double ratio = average / denominator;
  const double value = double{before.value[i]} * a.keep - a.stepSize * ratio;
  // Each operation rounds once to fp32; a difference is as exact as its terms.
  const double averageBound = 4 * kUlp * (std::abs(before.expAvg[i]) + std::abs(g));
  emu::expectNear(after.expAvg[i], average, averageBound, "first moment");
  emu::expectNear(after.expAvgSq[i], square, 5 * kUlp * square, "second moment");
  emu::expectNear(after.value[i], value,
                  3 * kUlp * (std::abs(before.value[i]) + a.stepSize * std::abs(ratio)) +
                      a.stepSize * (averageBound / denominator + 7 * kUlp * std::abs(ratio)),
                  "parameter");
}

}  // namespace

EMU_TEST(adamw_update) {
  emu::forEachSchedule([] {
    emu::Data data(11);
    Policy policy = makePolicy(data);
    const std::vector<Parameter> before = policy.parameters;
    const AdamWArgs args = argsOf(policy);
    emu::launch(acoer_adamw, dim3(policy.blocks), dim3(kAdamWThreads), 0, args);
    for (size_t p = 0; p < before.size(); ++p) {
      for (size_t i = 0; i < before[p].value.size(); ++i) {
        checkElement(args, before[p], policy.parameters[p], i);
      }
      emu::expectSame(policy.parameters[p].gradient, before[p].gradient, "gradient");
    }
  });
}

EMU_TEST(adamw_gradient_squares) {
  emu::forEachSchedule([] {
    emu::Data data(12);
    Policy policy = makePolicy(data);
    const std::vector<float> sums = squaresOf(policy);
    size_t block = 0;
    for (const Parameter& p : policy.parameters) {
      for (size_t first = 0; first < p.value.size(); first += kAdamWChunk, ++block) {
        double exact = 0;
        const size_t end = std::min(p.gradient.size(), first + kAdamWChunk);
        for (size_t i = first; i < end; ++i) exact += double{p.gradient[i]} * p.gradient[i];
        // 32 additions in a thread and 13 over the block.
        emu::expectNear(sums[block], exact, 45 * 0x1p-24 * exact, "squares");
      }
    }
    // No order of threads and blocks changes a bit.
    emu::schedule() += 1000;
    emu::expectSame(squaresOf(policy), sums, "squares of another schedule");
    emu::schedule() -= 1000;
  });
}
