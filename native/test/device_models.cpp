#include "device_models.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <random>

#include "emulated_gpu.h"
#include "kernels/gpu/kernels.h"
#include "matrix/gpu_quantised.h"
#include "model/weights.h"

namespace acoer::check {

ModelSpec smallSpec() {
  ModelSpec spec;
  spec.vocabSize = 512;
  spec.hiddenSize = 192;
  spec.intermediateSize = 384;
  spec.numLayers = 3;
  spec.numHeads = 6;
  spec.numKvHeads = 2;
  spec.headDim = 64;
  spec.maxPositions = 4096;
  spec.ropeTheta = 1e6;
  spec.tieWordEmbeddings = true;
  return spec;
}

ModelSpec qwen2Spec() {
  ModelSpec spec = smallSpec();
  spec.qkvBias = true;
  spec.qkNorm = false;
  return spec;
}

ModelSpec llama3Spec() {
  ModelSpec spec = smallSpec();
  spec.qkNorm = false;
  spec.ropeTheta = 5e5;
  spec.ropeScaling = {.kind = RopeScaling::Kind::kLlama3, .factor = 8, .originalPositions = 64};
  return spec;
}

ModelSpec yarnSpec() {
  ModelSpec spec = smallSpec();
  spec.ropeScaling = {.kind = RopeScaling::Kind::kYarn,
                      .factor = 4,
                      .originalPositions = 64,
                      .attentionFactor = 1.2};
  return spec;
}

ModelSpec qwen3Spec1p7B(int64_t layers) {
  ModelSpec spec;
  spec.vocabSize = 151936;
  spec.hiddenSize = 2048;
  spec.intermediateSize = 6144;
  spec.numLayers = layers;
  spec.numHeads = 16;
  spec.numKvHeads = 8;
  spec.headDim = 128;
  spec.maxPositions = 40960;
  spec.tieWordEmbeddings = true;
  return spec;
}

namespace {

class RandomWeights {
 public:
  RandomWeights(at::Device device, at::ScalarType dtype, uint64_t seed, double scale, bool onDevice)
      : device_(device), dtype_(dtype), scale_(scale), onDevice_(onDevice) {
    generator_ = at::detail::createCPUGenerator(seed);
  }
  at::Tensor normal(at::IntArrayRef shape) {
    if (onDevice_) return at::randn(shape, at::device(device_).dtype(dtype_)).mul_(scale_);
    return (at::randn(shape, generator_, at::dtype(at::kDouble)) * scale_).to(device_, dtype_);
  }
  // Norm weights around 1, so that a forgotten weight shows up.
  at::Tensor norm(int64_t size) {
    if (onDevice_) return at::ones({size}, at::device(device_).dtype(dtype_));
    return (at::randn({size}, generator_, at::dtype(at::kDouble)) * 0.1 + 1).to(device_, dtype_);
  }

 private:
  at::Device device_;
  at::ScalarType dtype_;
  double scale_;
  bool onDevice_;
  at::Generator generator_;
};

}  // namespace

const GpuKernels*& kernelsOnCpu() {
  static const GpuKernels* kernels = nullptr;
  return kernels;
}

std::shared_ptr<Model> randomModel(const ModelSpec& spec, at::Device device, at::ScalarType dtype,
                                   uint64_t seed, double scale) {
  const bool large = spec.vocabSize * spec.hiddenSize > 100'000'000;
  RandomWeights random(device, dtype, seed, scale, large);
  auto model = std::make_shared<Model>();
  model->spec = spec;
  model->device = device;
  model->dtype = dtype;
  model->kernels = device.is_cpu() ? kernelsOnCpu() : gpuKernelsFor(device);
  model->weights = makeWeights(spec, [&](at::IntArrayRef shape) {
    return shape.size() == 1 ? random.norm(shape[0]) : random.normal(shape);
  });
  for (const auto& [name, tensor] : namedWeights(spec, model->weights)) {
    model->parameterCount += tensor.numel();
    model->bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return model;
}

void quantise(Model& model, Quantization quantization) {
  const auto scratch = std::make_shared<QuantisedScratch>();
  for (LayerWeights& layer : model.weights.layers) {
    for (const LayerTensor& tensor : layerTensors(model.spec)) {
      if (!tensor.matrix) continue;
      Matrix& matrix = layer.*tensor.matrix;
      const at::Tensor w_OI = matrix.values().cpu();
      std::vector<int64_t> rows;
      for (const LayerTensor::Part& part : tensor.parts) rows.push_back(part.rows);
      Quantised quantised = allocateQuantised(quantization, rows, tensor.columns);
      int64_t first = 0;
      for (size_t i = 0; i < rows.size(); first += rows[i++]) {
        quantisePart(quantised, i, w_OI.narrow(0, first, rows[i]));
      }
      matrix = Matrix(quantised.to(model.device), model.dtype, scratch);
    }
  }
  model.quantization = quantization;
}

std::shared_ptr<Policy> randomAdapter(std::shared_ptr<Model> model, uint64_t seed) {
  PolicyOptions options;
  options.rank = 8;
  options.alpha = 16;
  options.targets.fill(true);
  options.seed = seed;
  auto policy = createPolicy(std::move(model), options);
  auto generator = at::detail::createCPUGenerator(seed);
  at::NoGradGuard noGrad;
  for (auto& layer : policy->lora) {
    for (auto& pair : layer) {
      pair.b_OR.copy_(at::randn(pair.b_OR.sizes(), generator, at::dtype(at::kDouble)) * 0.02);
    }
  }
  return policy;
}

PackedSequences randomSequences(const ModelSpec& spec, const std::vector<int64_t>& promptLengths,
                                const std::vector<int64_t>& completionLengths, uint64_t seed) {
  std::mt19937_64 random(seed);
  PackedSequences batch;
  batch.offsets.push_back(0);
  batch.promptLengths = promptLengths;
  for (size_t b = 0; b < promptLengths.size(); ++b) {
    const int64_t length = promptLengths[b] + completionLengths[b];
    for (int64_t t = 0; t < length; ++t) {
      batch.ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(spec.vocabSize)));
    }
    batch.offsets.push_back(static_cast<int64_t>(batch.ids.size()));
  }
  return batch;
}

std::vector<double> randomSlopes(const PackedSequences& sequences, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto total = static_cast<double>(sequences.completionTokens());
  std::vector<double> slopes;
  for (int64_t b = 0; b < sequences.count(); ++b) {
    const double advantage = static_cast<double>(random() % 2001) / 1000.0 - 1.0;
    const int64_t completion =
        sequences.offsets[b + 1] - sequences.offsets[b] - sequences.promptLengths[b];
    slopes.insert(slopes.end(), static_cast<size_t>(completion), -advantage / total);
  }
  return slopes;
}

ScoreResult addGradients(Policy& policy, const PackedSequences& sequences,
                         const std::vector<double>& slopes) {
  const Cancel cancel;
  ScoreResult result = forward(policy, sequences, 1, std::nullopt, cancel);
  backward(policy, slopes, cancel);
  return result;
}

double largestGap(const NamedGradients& a, const NamedGradients& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i].second - b[i].second).abs().max().item<double>());
  }
  return largest;
}

}  // namespace acoer::check
