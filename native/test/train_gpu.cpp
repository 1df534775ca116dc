// Scoring, gradients and AdamW with our CUDA kernels against libtorch's operations, which the
// device_golden tests compare with float64. On a CPU the kernels are emulated: that shows the
// engine's wiring (layouts, strides, which tensor goes where), and nothing of a real card.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <cstdio>

#include "check.h"
#include "device_models.h"
#include "emulated_gpu.h"
#include "ops/gpu_ops.h"
#include "train/gpu_adamw.h"
#include "train/shards.h"

namespace acoer::check {
namespace {

const Cancel kNever;
constexpr double kTemperature = 0.7;
constexpr DropoutKey kKey{99};

struct Setup {
  at::ScalarType dtype = at::kFloat;
  bool full = false;
  double dropout = 0;
  int64_t headDim = 64;
  ModelSpec (*spec)() = smallSpec;
  Shard shard{};
  Quantization quantization = Quantization::kNone;
};

std::shared_ptr<Policy> makePolicy(const Setup& setup, const GpuKernels* kernels) {
  ModelSpec spec = setup.spec();
  spec.headDim = setup.headDim;
  auto model = randomModel(spec, checkDevice(), setup.dtype, 7);
  if (setup.quantization != Quantization::kNone) quantise(*model, setup.quantization);
  model->kernels = kernels;
  if (!setup.full) {
    auto policy = randomAdapter(model, 11);
    policy->options.dropout = setup.dropout;
    return policy;
  }
  PolicyOptions options;
  options.kind = PolicyOptions::Kind::kFull;
  options.shard = setup.shard;
  return createPolicy(model, options);
}

// What two optimiser steps on one batch give.
struct Trained {
  ScoreResult first, second;
  at::Tensor gradients, parameters;
  double gradNorm = 0;
};

at::Tensor flat(const NamedGradients& named) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, tensor] : named) {
    parts.push_back(tensor.detach().to(at::kCPU, at::kDouble).flatten());
  }
  return at::cat(parts);
}

Trained train(const Setup& setup, const GpuKernels* kernels, int64_t keepBytes) {
  const auto policy = makePolicy(setup, kernels);
  // Attention pads the first batch's sequences; the second's are its packed rows as they are.
  const auto ragged = randomSequences(policy->model->spec, {5, 17, 1, 33}, {40, 3, 21, 64}, 3);
  const auto even = randomSequences(policy->model->spec, {7, 7}, {12, 12}, 4);
  const std::optional<DropoutKey> key = setup.dropout > 0 ? std::optional(kKey) : std::nullopt;
  Trained trained;
  const StepOptions options{.learningRate = 1e-3, .weightDecay = 0.1, .maxGradNorm = 0.5};
  for (const auto& [batch, into] :
       {std::pair{&ragged, &trained.first}, std::pair{&even, &trained.second}}) {
    *into = forward(*policy, *batch, kTemperature, key, kNever, keepBytes);
    backward(*policy, randomSlopes(*batch, 5), kNever);
    if (into == &trained.first) trained.gradients = flat(gradients(*policy));
    const StepResult stepped = step(*policy, options);
    ACOER_CHECK(stepped.applied);
    trained.gradNorm = stepped.gradNorm;
  }
  NamedGradients values;
  for (const Parameter& p : policy->parameters) values.emplace_back(p.name, p.value);
  trained.parameters = flat(values);
  return trained;
}

double meanGap(const std::vector<double>& a, const std::vector<double>& b) {
  ACOER_CHECK(a.size() == b.size() && !a.empty());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

double relativeGap(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

struct Bounds {
  double logprobs, gradients, parameters;
  double afterStep;  // log-probs under the parameters of the first step
};

void compare(const Setup& setup, const Bounds& bounds) {
  for (const int64_t keepBytes : {int64_t{1} << 40, int64_t{0}}) {
    const Trained want = train(setup, nullptr, keepBytes);
    const Trained got = train(setup, kernelsToCheck(), keepBytes);
    const double first = meanGap(got.first.logprobs, want.first.logprobs),
                 entropy = meanGap(got.first.entropies, want.first.entropies),
                 second = meanGap(got.second.logprobs, want.second.logprobs),
                 gradient = relativeGap(got.gradients, want.gradients),
                 parameter = relativeGap(got.parameters, want.parameters);
    std::printf("    log-probs %.1e, then %.1e; entropies %.1e; gradients %.1e; parameters %.1e\n",
                first, second, entropy, gradient, parameter);
    ACOER_CHECK_LE(first, bounds.logprobs);
    ACOER_CHECK_LE(entropy, bounds.logprobs);
    ACOER_CHECK_LE(second, bounds.afterStep);
    ACOER_CHECK_LE(gradient, bounds.gradients);
    ACOER_CHECK_LE(std::abs(got.gradNorm / want.gradNorm - 1), 2 * bounds.gradients);
    ACOER_CHECK_LE(parameter, bounds.parameters);
  }
}

// fp32: sums in another order. bf16: the same roundings, which a sum in another order now and then
// tips to the neighbouring number; AdamW then moves a parameter whose gradient is almost zero the
// other way, by up to twice the learning rate. How many do depends on the compiler: log-probs after
// the step differed by 1e-6 to 1.1e-5 in fp32.
constexpr Bounds kFloatBounds{2e-6, 1e-5, 1e-4, 5e-5};
constexpr Bounds kBfloatBounds{0.01, 0.02, 0.02, 0.04};

}  // namespace

ACOER_TEST(device_kernels_train_like_tensor_ops_float32) {
  compare({}, kFloatBounds);
  compare({.dropout = 0.3}, kFloatBounds);
  compare({.headDim = 96}, kFloatBounds);
  compare({.spec = qwen2Spec}, kFloatBounds);
}
ACOER_TEST(device_kernels_train_like_tensor_ops_full_model) {
  compare({.full = true}, kFloatBounds);
  compare({.full = true, .spec = qwen2Spec}, kFloatBounds);
}
ACOER_TEST(device_kernels_train_like_tensor_ops_bfloat16) {
  compare({.dtype = at::kBFloat16}, kBfloatBounds);
  compare({.dtype = at::kBFloat16, .dropout = 0.3, .headDim = 128}, kBfloatBounds);
  compare({.dtype = at::kBFloat16, .headDim = 96, .spec = llama3Spec}, kBfloatBounds);
}

// The base in 4 or 8 bits: few rows straight from the codes, the others through plain weights.
ACOER_TEST(device_kernels_train_quantised_like_the_cpu) {
  for (const Quantization quantization : {Quantization::kNf4, Quantization::kInt8}) {
    compare({.quantization = quantization}, kFloatBounds);
    compare({.dtype = at::kBFloat16, .headDim = 128, .quantization = quantization}, kBfloatBounds);
  }
  compare({.dropout = 0.3, .spec = qwen2Spec, .quantization = Quantization::kNf4}, kFloatBounds);
}

ACOER_TEST(device_kernels_make_the_cpu_s_dropout_masks) {
  const auto batch = randomSequences(smallSpec(), {3, 1}, {20, 31}, 8);
  const DropoutPlan onHost = makeDropoutPlan(batch, kKey, 0.2, nullptr, checkDevice());
  const DropoutPlan onDevice = makeDropoutPlan(batch, kKey, 0.2, kernelsToCheck(), checkDevice());
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto options = at::device(checkDevice()).dtype(dtype);
    for (const int64_t width : {1, 13, 192}) {
      ACOER_CHECK(gpuDropoutMask(onDevice, 13107, 5, width, options).defined());
      ACOER_CHECK(at::equal(dropoutMask(onDevice, 2, kUp, width, options),
                            dropoutMask(onHost, 2, kUp, width, options)));
    }
  }
}

// What a layer gives its operations is taken; anything else is left to libtorch.
ACOER_TEST(device_kernels_take_the_tensors_of_training) {
  const GpuKernels* kernels = kernelsToCheck();
  for (const auto dtype : {at::kBFloat16, at::kFloat, at::kDouble}) {
    const bool taken = dtype != at::kDouble;
    const auto ones = [&](at::IntArrayRef shape) {
      return at::ones(shape, at::device(checkDevice()).dtype(dtype));
    };
    const at::Tensor x = ones({5, 64}), weight = ones({64}), qkv = ones({5, 4 * 64});
    const at::Tensor heads = qkv.narrow(1, 64, 128).unflatten(1, {2, 64});
    const Angles angles{ones({5, 64}), ones({5, 64})};
    ACOER_CHECK(gpuRmsRotate(kernels, x, weight, 1e-6, {}).has_value() == taken);
    ACOER_CHECK(gpuRmsRotate(kernels, heads, weight, 1e-6, angles).has_value() == taken);
    ACOER_CHECK(gpuRmsRotate(kernels, heads, {}, 1e-6, angles).has_value() == taken);
    ACOER_CHECK(gpuAddAndNorm(kernels, x, ones({5, 64}), weight, 1e-6).has_value() == taken);
    ACOER_CHECK(gpuSwiglu(kernels, ones({5, 32})).defined() == taken);
    ACOER_CHECK(gpuSwigluBackward(kernels, ones({5, 16}), ones({5, 32})).defined() == taken);

    ACOER_CHECK(!gpuRmsRotate(nullptr, x, weight, 1e-6, {}).has_value());
    ACOER_CHECK(!gpuRmsRotate(kernels, x.t(), ones({5}), 1e-6, {}).has_value());
    ACOER_CHECK(!gpuRmsRotate(kernels, ones({5, 60}), ones({60}), 1e-6, {}).has_value());
    ACOER_CHECK(!gpuRmsRotate(kernels, ones({0, 64}), weight, 1e-6, {}).has_value());
    ACOER_CHECK(
        !gpuRmsRotate(kernels, ones({5, 2, 32}), ones({32}), 1e-6, {ones({5, 32}), ones({5, 32})})
             .has_value());
    ACOER_CHECK(!gpuSwiglu(kernels, ones({5, 24})).defined());
  }
}

ACOER_TEST(device_kernels_take_every_policy_in_fp32) {
  for (const bool full : {false, true}) {
    const auto policy = makePolicy({.full = full}, kernelsToCheck());
    ACOER_CHECK(GpuAdamW::of(*policy, {}).has_value());
    policy->model->kernels = nullptr;
    ACOER_CHECK(!GpuAdamW::of(*policy, {}).has_value());
  }
  ACOER_CHECK(!GpuAdamW::of(*makePolicy({.dtype = at::kDouble}, kernelsToCheck()), {}).has_value());
}

StepResult stepOn(Policy& policy, int number) {
  const int64_t numbers = policy.shardOffsets.back();
  const at::Tensor places = at::arange(numbers, at::device(checkDevice()).dtype(at::kDouble));
  policy.gradientSums.flat = at::sin(places * (number + 0.7)).to(gradientSumType(policy));
  return step(policy, {.learningRate = 1e-2, .weightDecay = 0.1, .maxGradNorm = 5});
}

// Shards have the norm of all gradients, and together make the step of one policy to the bit.
ACOER_TEST(device_kernels_step_on_shards) {
  for (const GpuKernels* kernels : {static_cast<const GpuKernels*>(nullptr), kernelsToCheck()}) {
    const auto whole = makePolicy({.full = true}, kernels);
    std::vector<std::shared_ptr<Policy>> shards;
    for (int64_t s = 0; s < 3; ++s) {
      shards.push_back(makePolicy({.full = true, .shard = {s, 3}}, kernels));
    }
    const std::vector<int64_t>& offsets = shards[0]->shardOffsets;
    for (int number = 0; number < 3; ++number) {
      const StepResult want = stepOn(*whole, number);
      std::vector<at::Tensor> lent;
      for (const auto& shard : shards) {
        const StepResult got = stepOn(*shard, number);
        ACOER_CHECK(got.applied && got.gradNorm == want.gradNorm);
        lent.push_back(lendShard(*shard, Sharded::kWeights));
      }
      for (size_t s = 0; s < lent.size(); ++s) {
        for (const at::Tensor& to : lent) {
          to.slice(0, offsets[s], offsets[s + 1])
              .copy_(lent[s].slice(0, offsets[s], offsets[s + 1]));
        }
      }
      for (const auto& shard : shards) {
        takeWeights(*shard);
        for (size_t i = 0; i < whole->parameters.size(); ++i) {
          ACOER_CHECK(at::equal(shard->parameters[i].value, whole->parameters[i].value));
        }
      }
    }
  }
}

// A step whose gradients are not finite changes nothing.
ACOER_TEST(device_kernels_refuse_a_step_that_is_not_finite) {
  const auto policy = makePolicy({}, kernelsToCheck());
  const auto batch = randomSequences(policy->model->spec, {4}, {9}, 4);
  addGradients(*policy, batch, randomSlopes(batch, 5));
  const at::Tensor before = policy->parameters[3].value.clone();
  gradientIn(policy->gradientSums.flat, policy->parameters[2]).view(-1)[1] = NAN;
  ACOER_CHECK(!step(*policy, {.learningRate = 1e-3}).applied);
  ACOER_CHECK(at::equal(policy->parameters[3].value, before) && policy->stepCount == 0);
}

}  // namespace acoer::check
