// Keys and values in int8: what they are rounded to, and that decoding is otherwise what it was.
// The whole function is compared with transformers' in test/native/golden-int8-cache.test.ts.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

#include "emulated_gpu.h"
#include "generate/kv_cache.h"
#include "generate_support.h"
#include "test_hooks.h"

namespace acoer::check {
namespace {

const GenerateOptions kInt8Options{.kvCacheDtype = KvCacheDtype::kInt8};

ACOER_TEST(int8_cache_codes) {
  // With a largest number of 127 the scale is 1: ties go to the even neighbour.
  const at::Tensor ties = at::tensor({0.5, 1.5, -2.5, -3.5, 0.49, 126.5, -127.0, 0.0});
  const QuantizedHeads one = quantized(ties);
  ACOER_CHECK(one.scales.item<float>() == 1);
  ACOER_CHECK(at::equal(one.codes.to(at::kLong), at::tensor({0, 2, -2, -4, 0, 126, -127, 0})));
  ACOER_CHECK(one.codes.scalar_type() == at::kChar && one.scales.scalar_type() == at::kFloat);

  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinite = std::numeric_limits<double>::infinity();
  const at::Tensor heads =
      at::tensor({0.0, 0.0, 1e-44, 0.0, 1.0, nan, -infinite, 2.0}).view({4, 2});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const QuantizedHeads all = quantized(heads.to(dtype));
    const at::Tensor back = dequantized(all, dtype);
    ACOER_CHECK(back.scalar_type() == dtype);
    ACOER_CHECK(at::equal(back.narrow(0, 0, 2), at::zeros({2, 2}, dtype)));
    ACOER_CHECK(!at::isfinite(back.narrow(0, 2, 2)).any().item<bool>());
  }
}

// Half of a step at most, of each head by itself.
ACOER_TEST(int8_cache_error_is_half_of_a_step) {
  const at::Tensor scale = at::tensor({1e-3, 1.0, 300.0}).view({3, 1});
  const at::Tensor heads =
      at::randn({3, 128}, at::detail::createCPUGenerator(5), at::dtype(at::kDouble)) * scale;
  const at::Tensor error = (dequantized(quantized(heads), at::kDouble) - heads).abs().amax(-1);
  const at::Tensor step = heads.abs().amax(-1) / 127;
  ACOER_CHECK((error <= 0.5001 * step).all().item<bool>());
  ACOER_CHECK((error >= 0.4 * step).all().item<bool>());
}

std::vector<GenerateRequest> requestsFor(const ModelSpec& spec) {
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {1, 17, 100, 180}) {
    requests.push_back(makeRequest(randomIds(spec, length, static_cast<uint64_t>(length)), 2, 40));
  }
  return requests;
}

// Both in fp64, where no rounding on the way moves a number to another code: prompts that are
// attended row by row, longer ones, and steps.
ACOER_TEST(int8_cache_decodes_like_tensor_ops) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kDouble, 51);
  const auto requests = requestsFor(model->spec);
  const Generated ours = collect(*model, requests, kInt8Options),
                  exact = collect(*model, requests, kInt8Options, DecodePath::kTensorOps);
  for (const auto& [key, sequence] : ours.sequences)
    checkSame(sequence, exact.sequences.at(key), 1e-9);
}

// Rounding of the cache shows in the log-probs, and not by much.
ACOER_TEST(int8_cache_gap_to_score) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto model = randomModel(tinySpec(), at::kCPU, dtype, 52);
    const auto requests = requestsFor(model->spec);
    const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests, kInt8Options));
    ACOER_CHECK_LE(1e-4, gap.meanLogprob);
    ACOER_CHECK_LE(gap.meanLogprob, 2e-2);
    const ScoreGap exact = gapToScore(*model, requests, collect(*model, requests));
    ACOER_CHECK_LE(exact.meanLogprob, 1e-5);
  }
}

ACOER_TEST(int8_cache_holds_more) {
  const ModelSpec spec = tinySpec();
  const int64_t elements = 2 * spec.numLayers * spec.numKvHeads * spec.headDim;
  ACOER_CHECK(KvCache::bytesPerPosition(spec, at::kFloat) == 4 * elements);
  ACOER_CHECK(KvCache::bytesPerPosition(spec, at::kChar) ==
              elements + 2 * spec.numLayers * spec.numKvHeads * 4);
  const auto model = randomModel(spec, at::kCPU, at::kFloat, 53);
  const std::vector<GenerateRequest> requests{makeRequest(randomIds(spec, 1, 1), 40, 63)};
  GenerateOptions options;
  options.kvBytes = 16 * 64 * KvCache::bytesPerPosition(spec, at::kFloat);
  const Generated few = collect(*model, requests, options);
  options.kvCacheDtype = KvCacheDtype::kInt8;
  const Generated more = collect(*model, requests, options);
  ACOER_CHECK(few.stats.peakSlots < 17);
  // A head of 32 takes 128 bytes in fp32 and 36 in int8.
  ACOER_CHECK(more.stats.peakSlots == 40);
  options.kvBytes = 64;
  ACOER_CHECK_THROWS(collect(*model, requests, options), ErrorCode::kBadArgument,
                     "at " + std::to_string(KvCache::bytesPerPosition(spec, at::kChar)) + " bytes");
}

// Not hidden by the conversion to codes.
ACOER_TEST(int8_cache_of_weights_that_are_not_finite) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 54);
  const int64_t firstKeyRow = model->spec.qRows();
  model->weights.layers[1]
      .qkv_ED.plain()
      .select(0, firstKeyRow)
      .fill_(std::numeric_limits<double>::quiet_NaN());
  for (const DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
    ACOER_CHECK_THROWS(collect(*model, {makeRequest({1, 2, 3}, 1, 4)}, kInt8Options, path),
                       ErrorCode::kNotFinite, "not finite");
  }
}

std::shared_ptr<Model> modelWithKernels(at::ScalarType dtype, int64_t headDim = 64) {
  ModelSpec spec = smallSpec();
  spec.headDim = headDim;
  auto model = randomModel(spec, checkDevice(), dtype, 55);
  model->kernels = kernelsToCheck();
  return model;
}

std::vector<GenerateRequest> gpuRequests(const ModelSpec& spec) {
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {1, 17, 250}) {
    requests.push_back(makeRequest(randomIds(spec, length, static_cast<uint64_t>(length)), 2, 20));
  }
  return requests;
}

ACOER_TEST(gpu_kernels_over_an_int8_cache) {
  for (const int64_t headDim : {64, 128}) {
    const auto model = modelWithKernels(at::kBFloat16, headDim);
    const auto requests = gpuRequests(model->spec);
    const Generated plain = collect(*model, requests),
                    got = collect(*model, requests, kInt8Options);
    ACOER_CHECK(got.stats.fallback.empty());
    const ScoreGap exact = gapToScore(*model, requests, plain),
                   gap = gapToScore(*model, requests, got);
    // bf16 rounds more than the cache does.
    ACOER_CHECK_LE(gap.meanLogprob, 2 * exact.meanLogprob + 1e-3);
    const Generated reference = collect(*model, requests, kInt8Options, DecodePath::kTensorOps);
    ACOER_CHECK(got.stats.newTokens == reference.stats.newTokens);
  }
}

ACOER_TEST(gpu_kernels_over_an_int8_cache_show_bugs) {
  if (!checkDevice().is_cpu()) return;
  const auto model = modelWithKernels(at::kBFloat16);
  const auto requests = gpuRequests(model->spec);
  const double right =
      gapToScore(*model, requests, collect(*model, requests, kInt8Options)).meanLogprob;
  for (const int bug : {35, 39}) {  // rotate.cuh, attention.cuh
    const PlantedBug planted(bug);
    const Generated got = collect(*model, requests, kInt8Options);
    ACOER_CHECK_LE(3 * right, gapToScore(*model, requests, got).meanLogprob);
  }
}

// libtorch's operations do what our kernels do not.
ACOER_TEST(gpu_kernels_leave_an_int8_cache_of_fp32_to_libtorch) {
  const auto model = modelWithKernels(at::kFloat);
  const auto requests = gpuRequests(model->spec);
  const Generated got = collect(*model, requests, kInt8Options);
  ACOER_CHECK(got.stats.fallback.find("bfloat16") != std::string::npos);
  ACOER_CHECK(collect(*model, requests).stats.fallback.empty());
  const auto narrow = modelWithKernels(at::kBFloat16);
  narrow->kernelFaults[KernelFamily::kInt8Cache] = "a fault of int8";
  ACOER_CHECK(collect(*narrow, requests, kInt8Options).stats.fallback == "a fault of int8");
  ACOER_CHECK(collect(*narrow, requests).stats.fallback.empty());
}

}  // namespace
}  // namespace acoer::check
