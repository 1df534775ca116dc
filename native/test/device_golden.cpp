// The engine on a device against the fp64 engine on the CPU: log-probs, gradients, ten optimiser
// steps, generation. fp64 on the CPU is itself compared with outside references in test/native.
#include <ATen/ATen.h>

#include <cmath>

#include "check.h"
#include "device_models.h"
#include "emulated_gpu.h"
#include "kernels/gpu/kernels.h"
#include "model/weights.h"

namespace acoer::check {
namespace {

const Cancel kNoCancel;

struct Pair {
  std::shared_ptr<Policy> reference;  // CPU, fp64
  std::shared_ptr<Policy> device;
};

// The fp64 reference has weights that the device's type can hold, so that rounding them is not part
// of the error.
Pair makePair(at::ScalarType dtype, const GpuKernels* kernels = gpuKernelsFor(checkDevice())) {
  auto model = randomModel(smallSpec(), at::kCPU, at::kDouble, 7);
  for (auto& [name, tensor] : namedWeights(model->spec, model->weights)) {
    tensor.copy_(tensor.to(dtype).to(at::kDouble));
  }
  auto onDevice = std::make_shared<Model>(*model);
  onDevice->device = checkDevice();
  onDevice->kernels = kernels;
  onDevice->dtype = dtype;
  changeWeights(
      model->spec, onDevice->weights,
      [&](const Matrix& w) { return Matrix(w.plain().to(checkDevice(), dtype)); },
      [&](const at::Tensor& vector) { return vector.to(checkDevice(), dtype); });
  return {randomAdapter(model, 11), randomAdapter(onDevice, 11)};
}

PackedSequences raggedSequences() {
  return randomSequences(smallSpec(), {5, 17, 1, 64, 9}, {40, 3, 130, 1, 257}, 3);
}

double maxDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

double meanDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

at::Tensor flatGradients(const Policy& policy) {
  std::vector<at::Tensor> parts;
  for (const auto& [name, gradient] : gradients(policy)) {
    parts.push_back(gradient.to(at::kCPU, at::kDouble).flatten());
  }
  return at::cat(parts);
}

double relativeError(const at::Tensor& value, const at::Tensor& reference) {
  return ((value - reference).norm() / reference.norm()).item<double>();
}

// fp32 sums in a different order: 1e-4. bf16: 8 bits of mantissa through three layers; the mean is
// the more stable figure.
void checkScore(const Pair& pair, double maxBound, double meanBound) {
  const auto batch = raggedSequences();
  for (const bool adapter : {false, true}) {
    const Policy* reference = adapter ? pair.reference.get() : nullptr;
    const Policy* device = adapter ? pair.device.get() : nullptr;
    const auto want = score(*pair.reference->model, reference, batch, 1, kNoCancel);
    const auto got = score(*pair.device->model, device, batch, 1, kNoCancel);
    ACOER_CHECK_LE(maxDifference(got.logprobs, want.logprobs), maxBound);
    ACOER_CHECK_LE(meanDifference(got.logprobs, want.logprobs), meanBound);
    ACOER_CHECK_LE(meanDifference(got.entropies, want.entropies), meanBound);
  }
}

ACOER_TEST(device_score_float32) { checkScore(makePair(at::kFloat), 2e-4, 2e-5); }
ACOER_TEST(device_score_bfloat16) { checkScore(makePair(at::kBFloat16), 0.5, 0.03); }

void checkGradients(const Pair& pair, double relativeBound, double cosineBound) {
  const auto batch = raggedSequences();
  const auto slopes = randomSlopes(batch, 5);
  const auto want = addGradients(*pair.reference, batch, slopes);
  const auto got = addGradients(*pair.device, batch, slopes);
  ACOER_CHECK_LE(meanDifference(got.logprobs, want.logprobs), relativeBound);
  const at::Tensor reference = flatGradients(*pair.reference);
  const at::Tensor value = flatGradients(*pair.device);
  ACOER_CHECK_LE(relativeError(value, reference), relativeBound);
  const double cosine = (value.dot(reference) / (value.norm() * reference.norm())).item<double>();
  ACOER_CHECK_LE(cosineBound, cosine);
}

ACOER_TEST(device_gradients_float32) { checkGradients(makePair(at::kFloat), 1e-4, 0.999999); }
ACOER_TEST(device_gradients_bfloat16) { checkGradients(makePair(at::kBFloat16), 0.05, 0.999); }

// Supervised-like steps on one batch: the log-probs of the device follow those of the reference.
ACOER_TEST(device_ten_optimizer_steps_float32) {
  const Pair pair = makePair(at::kFloat);
  const auto batch = raggedSequences();
  const auto slopes = randomSlopes(batch, 5);
  StepOptions options;
  options.learningRate = 1e-3;
  options.weightDecay = 0.01;
  options.maxGradNorm = 1;
  for (int i = 0; i < 10; ++i) {
    const auto want = addGradients(*pair.reference, batch, slopes);
    const auto got = addGradients(*pair.device, batch, slopes);
    ACOER_CHECK_LE(maxDifference(got.logprobs, want.logprobs), 1e-3);
    const auto wantStep = step(*pair.reference, options);
    const auto gotStep = step(*pair.device, options);
    ACOER_CHECK(wantStep.applied && gotStep.applied);
    ACOER_CHECK_LE(std::abs(gotStep.gradNorm / wantStep.gradNorm - 1), 1e-3);
  }
}

// The same with our CUDA kernels, which a CPU emulates.
Pair pairWithKernels(at::ScalarType dtype) { return makePair(dtype, kernelsToCheck()); }

ACOER_TEST(gpu_kernels_score) {
  checkScore(pairWithKernels(at::kFloat), 2e-4, 2e-5);
  checkScore(pairWithKernels(at::kBFloat16), 0.5, 0.03);
}
ACOER_TEST(gpu_kernels_gradients) {
  checkGradients(pairWithKernels(at::kFloat), 1e-4, 0.999999);
  checkGradients(pairWithKernels(at::kBFloat16), 0.05, 0.999);
}

// A test of the tests. Bugs can be planted in emulated kernels only.
ACOER_TEST(gpu_kernels_training_shows_bugs) {
  if (!checkDevice().is_cpu()) return;
  const PlantedBug planted(21);  // swiglu.cuh
  const Pair pair = pairWithKernels(at::kFloat);
  const auto batch = raggedSequences();
  const auto want = score(*pair.reference->model, nullptr, batch, 1, kNoCancel);
  const auto got = score(*pair.device->model, nullptr, batch, 1, kNoCancel);
  ACOER_CHECK_LE(1e-2, maxDifference(got.logprobs, want.logprobs));
}

std::vector<GenerateRequest> requestsFor(const Policy* policy, double temperature) {
  std::vector<GenerateRequest> requests;
  for (const int length : {3, 20, 41}) {
    GenerateRequest request;
    for (int t = 0; t < length; ++t) request.promptIds.push_back((t * 37 + length) % 512);
    request.numSamples = 5;
    request.seed = 1234 + static_cast<uint64_t>(length);
    request.maxNewTokens = 48;
    request.stopIds = {1, 2};
    request.sampling.temperature = temperature;
    request.policy = policy;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<GeneratedSequence> generateAll(const Policy& policy, double temperature,
                                           int64_t maxSlots, DecodePath path = DecodePath::kAuto) {
  std::vector<GeneratedSequence> sequences(15);
  GenerateOptions options;
  options.maxSlots = maxSlots;
  options.path = path;
  generate(
      *policy.model, requestsFor(&policy, temperature), options,
      [&](GeneratedSequence&& sequence) {
        const size_t place = static_cast<size_t>(sequence.request * 5 + sequence.sample);
        sequences[place] = std::move(sequence);
      },
      kNoCancel);
  return sequences;
}

// The log-probs that the sampler recorded against the training forward over the same tokens.
void checkSamplerGap(at::ScalarType dtype, DecodePath path, double meanBound, double maxBound) {
  const Pair pair = makePair(dtype);
  const auto requests = requestsFor(pair.device.get(), 1);
  const auto sequences = generateAll(*pair.device, 1, 4, path);
  PackedSequences batch;
  batch.offsets.push_back(0);
  std::vector<double> recorded;
  for (const auto& sequence : sequences) {
    const auto& prompt = requests[static_cast<size_t>(sequence.request)].promptIds;
    batch.ids.insert(batch.ids.end(), prompt.begin(), prompt.end());
    batch.ids.insert(batch.ids.end(), sequence.ids.begin(), sequence.ids.end());
    batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
    batch.promptLengths.push_back(static_cast<int64_t>(prompt.size()));
    recorded.insert(recorded.end(), sequence.logprobs.begin(), sequence.logprobs.end());
  }
  const auto scored = score(*pair.device->model, pair.device.get(), batch, 1, kNoCancel);
  ACOER_CHECK(scored.logprobs.size() == recorded.size() && recorded.size() > 100);
  ACOER_CHECK_LE(meanDifference(scored.logprobs, recorded), meanBound);
  ACOER_CHECK_LE(maxDifference(scored.logprobs, recorded), maxBound);
}

// With the kernels that the device takes by itself, and without.
ACOER_TEST(device_sampler_gap_float32) {
  checkSamplerGap(at::kFloat, DecodePath::kAuto, 2e-5, 2e-4);
  checkSamplerGap(at::kFloat, DecodePath::kTensorOps, 2e-5, 2e-4);
}
ACOER_TEST(device_sampler_gap_bfloat16) {
  checkSamplerGap(at::kBFloat16, DecodePath::kAuto, 0.02, 0.5);
  checkSamplerGap(at::kBFloat16, DecodePath::kTensorOps, 0.02, 0.5);
}

// A GPU takes our kernels, and graphs of them, for this model.
ACOER_TEST(device_decodes_without_fallback) {
  if (checkDevice().is_cpu()) return;
  const Pair pair = makePair(at::kBFloat16);
  const Cancel cancel;
  const GenerateStats stats = generate(
      *pair.device->model, requestsFor(pair.device.get(), 1), {}, [](GeneratedSequence&&) {},
      cancel);
  if (!stats.fallback.empty()) fail(ErrorCode::kDevice, stats.fallback);
}

// Few and many slots decode the same sequences: the batch does not affect the random numbers.
ACOER_TEST(device_generation_same_in_any_batch_float32) {
  const Pair pair = makePair(at::kFloat);
  for (const double temperature : {0.0, 1.0}) {
    const auto few = generateAll(*pair.device, temperature, 2);
    const auto many = generateAll(*pair.device, temperature, 15);
    for (size_t i = 0; i < few.size(); ++i) {
      ACOER_CHECK(few[i].ids == many[i].ids);
      ACOER_CHECK_LE(maxDifference(few[i].logprobs, many[i].logprobs), 1e-4);
    }
  }
}

}  // namespace
}  // namespace acoer::check
