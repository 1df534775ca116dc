// The optimiser's kernels and the masks of dropout.
#include <ATen/ATen.h>

#include <cmath>

#include "ops/gpu_ops.h"
#include "selfcheck/figures.h"
#include "train/gpu_adamw.h"

namespace acoer {
namespace {

// fp32 in every model.
constexpr double kOfFloats = 1e-5;

struct Update {
  double learningRate = 0.1, weightDecay = 0.1, clip = 0.37, time = 3;
};

// Parameters on both sides of a block of the kernels, one of them a vector, which does not decay.
struct Optimised {
  Policy policy;
  std::vector<Guarded> memory;  // value and moments of each parameter
  at::Tensor gradients;

  explicit Optimised(Figures& figures) {
    const auto numbers = [&](at::IntArrayRef shape, double deviation) {
      return figures.normalIn(at::kFloat, shape, 0, deviation);
    };
    policy.model = std::make_shared<Model>();
    policy.model->device = figures.device();
    policy.model->kernels = &figures.kernels();
    int64_t offset = 0;
    const std::vector<std::vector<int64_t>> shapes{{1, 5}, {1, 8192}, {3, 2731}, {300}, {1, 8191}};
    for (const auto& shape : shapes) {
      memory.emplace_back(numbers(shape, 1));
      memory.emplace_back(numbers(shape, 1e-3));
      memory.emplace_back(numbers(shape, 1e-3).square());
      Parameter parameter;
      parameter.value = memory[memory.size() - 3].tensor();
      parameter.expAvg = memory[memory.size() - 2].tensor();
      parameter.expAvgSq = memory.back().tensor();
      parameter.offset = offset;
      parameter.ownEnd = parameter.value.numel();
      offset += parameter.ownEnd;
      policy.parameters.push_back(parameter);
    }
    gradients = numbers({offset}, 1e-3);
  }
};

struct Exact {
  at::Tensor change, expAvg, expAvgSq;  // flat, of all parameters
};

Exact exactUpdate(const Optimised& optimised, const Update& update) {
  const PolicyOptions& betas = optimised.policy.options;
  std::vector<at::Tensor> changes, averages, squares;
  for (const Parameter& p : optimised.policy.parameters) {
    const auto flat = [](const at::Tensor& x) { return x.to(at::kDouble).flatten(); };
    const at::Tensor g =
        flat(optimised.gradients.narrow(0, p.offset, p.value.numel())) * update.clip;
    averages.push_back(flat(p.expAvg) * betas.beta1 + g * (1 - betas.beta1));
    squares.push_back(flat(p.expAvgSq) * betas.beta2 + g * g * (1 - betas.beta2));
    const at::Tensor denominator =
        squares.back().sqrt() / std::sqrt(1 - std::pow(betas.beta2, update.time)) + betas.eps;
    const double decay = p.decays() ? update.weightDecay : 0;
    const double stepSize = update.learningRate / (1 - std::pow(betas.beta1, update.time));
    changes.push_back(flat(p.value) * (-update.learningRate * decay) -
                      averages.back() / denominator * stepSize);
  }
  return {at::cat(changes), at::cat(averages), at::cat(squares)};
}

at::Tensor flatOf(const Policy& policy, at::Tensor Parameter::* part) {
  std::vector<at::Tensor> parts;
  for (const Parameter& p : policy.parameters) parts.push_back((p.*part).to(at::kDouble).flatten());
  return at::cat(parts);
}

}  // namespace

void checkAdamW(Figures& figures) {
  figures.begin("gradient_squares");
  const Optimised optimised(figures);
  const Policy& policy = optimised.policy;
  const auto step = GpuAdamW::of(policy, optimised.gradients);
  if (!step) return;
  const auto exactNorm = optimised.gradients.to(at::kDouble).norm().item<double>();
  figures.expect(std::abs(step->gradientNorm() - exactNorm) / exactNorm, kOfFloats);

  figures.begin("adamw");
  const Update update;
  const Exact exact = exactUpdate(optimised, update);
  const at::Tensor before = flatOf(policy, &Parameter::value);
  StepOptions options;
  options.learningRate = update.learningRate;
  options.weightDecay = update.weightDecay;
  step->update(policy.options, options, update.clip, update.time);
  for (const Guarded& memory : optimised.memory) figures.expectUntouched(memory);
  figures.expectNear(flatOf(policy, &Parameter::value) - before, exact.change, kOfFloats);
  figures.expectNear(flatOf(policy, &Parameter::expAvg), exact.expAvg, kOfFloats);
  figures.expectNear(flatOf(policy, &Parameter::expAvgSq), exact.expAvgSq, kOfFloats);
}

// The masks of the CPU, to the bit.
void checkDropout(Figures& figures) {
  figures.begin(figures.typed("dropout"));
  constexpr double kProbability = 0.2;
  constexpr int64_t kLayer = 2;
  PackedSequences batch;
  batch.offsets = {0, 23, 54};
  batch.promptLengths = {3, 1};
  for (int32_t t = 0; t < 54; ++t) batch.ids.push_back(t * t % 29);
  const DropoutKey key{99};
  const DropoutPlan onDevice =
      makeDropoutPlan(batch, key, kProbability, &figures.kernels(), figures.device());
  const DropoutPlan onHost = makeDropoutPlan(batch, key, kProbability, nullptr, at::kCPU);
  for (const int64_t width : {figures.spec().hiddenSize, int64_t{13}}) {
    const Guarded mask({54, width}, figures.dtype(), figures.device());
    startDropoutMask(onDevice, static_cast<uint32_t>(std::lround(kProbability * 65536)),
                     static_cast<uint64_t>(kLayer * kNumTargets + kUp), mask.tensor());
    const at::Tensor exact =
        dropoutMask(onHost, kLayer, kUp, width, at::dtype(figures.dtype())).to(figures.device());
    figures.expectUntouched(mask);
    figures.expect(at::equal(mask.tensor(), exact) ? 0 : 1, 0);
  }
}

}  // namespace acoer
