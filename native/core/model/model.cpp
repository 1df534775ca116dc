#include "model/model.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/device.h"
#include "kernels/gpu/kernels.h"
#include "matrix/gpu_quantised.h"
#include "model/weights.h"

namespace acoer {

namespace {

// Filling gigabytes in pages of 4 KB takes longer than reading them. A kernel without huge pages
// ignores this.
void preferHugePages(const at::Tensor& tensor) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  if (!tensor.is_cpu()) return;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (begin + tensor.nbytes()) / kHugePage * kHugePage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// Within these bounds no product of sizes overflows an int64_t. Mistakes in a config.json are
// reported where it is read, by field name.
void checkSpec(const ModelSpec& spec) {
  constexpr double kMaxNumbers = 1e12;  // per matrix
  bool good = true;
  for (const int64_t size : {spec.vocabSize, spec.hiddenSize, spec.intermediateSize, spec.numLayers,
                             spec.numHeads, spec.numKvHeads, spec.headDim, spec.maxPositions}) {
    good = good && size >= 1 && size <= int64_t{1} << 31;
  }
  good = good && spec.numHeads % spec.numKvHeads == 0 && spec.headDim % 2 == 0;
  const RopeScaling& rope = spec.ropeScaling;
  const bool scaled = rope.kind != RopeScaling::Kind::kNone;
  for (const double number :
       {spec.rmsNormEps, spec.ropeTheta, rope.factor, scaled ? rope.originalPositions : 1,
        rope.lowFrequencyFactor, rope.highFrequencyFactor - rope.lowFrequencyFactor, rope.betaFast,
        rope.betaSlow, rope.attentionFactor}) {
    good = good && std::isfinite(number) && number > 0;
  }
  for (const double rows :
       {static_cast<double>(spec.vocabSize), static_cast<double>(spec.intermediateSize),
        static_cast<double>(spec.numHeads) * static_cast<double>(spec.headDim)}) {
    good = good && rows * static_cast<double>(spec.hiddenSize) <= kMaxNumbers;
  }
  if (!good) fail(ErrorCode::kBadArgument, "the model's spec is inconsistent or out of range");
}

// Rejects files that do not hold what `spec` describes before any memory is taken for it: a
// config.json of a hundred bytes can describe terabytes.
void checkWeights(const TensorReader& reader, const ModelSpec& spec) {
  const size_t count = reader.tensors().size();
  if (static_cast<size_t>(spec.numLayers) > count) {
    fail(ErrorCode::kBadFile, reader.lacks(), " tensors: num_hidden_layers of config.json is ",
         spec.numLayers, ", but there are only ", count, " tensors");
  }
  const Weights shapes =
      allocateWeights(spec, at::TensorOptions().dtype(at::kFloat).device(at::kMeta));
  std::set<std::string> wanted;
  for (const auto& [name, shape] : namedWeights(spec, shapes)) {
    reader.check(name, shape.sizes(), shape.scalar_type());
    wanted.insert(name);
  }
  reader.checkNoOthers(wanted, "a model with this config.json");
}

}  // namespace

std::vector<LayerTensor> layerTensors(const ModelSpec& spec) {
  const int64_t D = spec.hiddenSize, F = spec.intermediateSize, K = spec.headDim;
  const int64_t q = spec.qRows(), kv = spec.kvRows();
  std::vector<LayerTensor> tensors{{&LayerWeights::qkv_ED,
                                    nullptr,
                                    {{"self_attn.q_proj.weight", q},
                                     {"self_attn.k_proj.weight", kv},
                                     {"self_attn.v_proj.weight", kv}},
                                    D}};
  const auto addVector = [&](at::Tensor LayerWeights::* vector,
                             std::vector<LayerTensor::Part> parts) {
    tensors.push_back({nullptr, vector, std::move(parts)});
  };
  if (spec.qkvBias) {
    addVector(&LayerWeights::qkvBias_E, {{"self_attn.q_proj.bias", q},
                                         {"self_attn.k_proj.bias", kv},
                                         {"self_attn.v_proj.bias", kv}});
  }
  tensors.push_back({&LayerWeights::o_DHK, nullptr, {{"self_attn.o_proj.weight", D}}, q});
  if (spec.qkNorm) {
    addVector(&LayerWeights::qNorm_K, {{"self_attn.q_norm.weight", K}});
    addVector(&LayerWeights::kNorm_K, {{"self_attn.k_norm.weight", K}});
  }
  tensors.push_back({&LayerWeights::gateUp_2FD,
                     nullptr,
                     {{"mlp.gate_proj.weight", F}, {"mlp.up_proj.weight", F}},
                     D});
  tensors.push_back({&LayerWeights::down_DF, nullptr, {{"mlp.down_proj.weight", D}}, F});
  addVector(&LayerWeights::inputNorm_D, {{"input_layernorm.weight", D}});
  addVector(&LayerWeights::postNorm_D, {{"post_attention_layernorm.weight", D}});
  return tensors;
}

Weights makeWeights(const ModelSpec& spec,
                    const std::function<at::Tensor(c10::IntArrayRef)>& make) {
  Weights w;
  const auto makeMatrix = [&](int64_t rows, int64_t columns) {
    return Matrix(make({rows, columns}));
  };
  w.embed_VD = makeMatrix(spec.vocabSize, spec.hiddenSize);
  w.head_VD = spec.tieWordEmbeddings ? w.embed_VD : makeMatrix(spec.vocabSize, spec.hiddenSize);
  w.finalNorm_D = make({spec.hiddenSize});
  const std::vector<LayerTensor> tensors = layerTensors(spec);
  for (int64_t i = 0; i < spec.numLayers; ++i) {
    LayerWeights& layer = w.layers.emplace_back();
    for (const LayerTensor& tensor : tensors) {
      int64_t rows = 0;
      for (const LayerTensor::Part& part : tensor.parts) rows += part.rows;
      if (tensor.matrix) {
        layer.*tensor.matrix = makeMatrix(rows, tensor.columns);
      } else {
        layer.*tensor.vector = make({rows});
      }
    }
  }
  return w;
}

Weights allocateWeights(const ModelSpec& spec, at::TensorOptions options) {
  return makeWeights(spec, [&](c10::IntArrayRef shape) {
    const at::Tensor tensor = at::empty(shape, options);
    preferHugePages(tensor);
    return tensor;
  });
}

void changeWeights(const ModelSpec& spec, Weights& w,
                   const std::function<Matrix(const Matrix&)>& matrix,
                   const std::function<at::Tensor(const at::Tensor&)>& vector) {
  const bool tied = w.head_VD.isSame(w.embed_VD);
  w.embed_VD = matrix(w.embed_VD);
  w.head_VD = tied ? w.embed_VD : matrix(w.head_VD);
  w.finalNorm_D = vector(w.finalNorm_D);
  const std::vector<LayerTensor> tensors = layerTensors(spec);
  for (LayerWeights& layer : w.layers) {
    for (const LayerTensor& tensor : tensors) {
      if (tensor.matrix) {
        layer.*tensor.matrix = matrix(layer.*tensor.matrix);
      } else {
        layer.*tensor.vector = vector(layer.*tensor.vector);
      }
    }
  }
}

std::vector<WeightSlot> weightSlots(const ModelSpec& spec, const Weights& w) {
  std::vector<WeightSlot> slots;
  const auto addWhole = [&](const std::string& name, const at::Tensor& whole) {
    slots.push_back({name + ".weight", whole, 0, whole.size(0)});
  };
  addWhole("model.embed_tokens", w.embed_VD.plain());
  const std::vector<LayerTensor> tensors = layerTensors(spec);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    for (const LayerTensor& tensor : tensors) {
      const LayerWeights& layer = w.layers[i];
      const at::Tensor whole =
          tensor.matrix ? (layer.*tensor.matrix).plain() : layer.*tensor.vector;
      int64_t row = 0;
      for (const LayerTensor::Part& part : tensor.parts) {
        slots.push_back({prefix + part.name, whole, row, part.rows});
        row += part.rows;
      }
    }
  }
  addWhole("model.norm", w.finalNorm_D);
  if (!spec.tieWordEmbeddings) addWhole("lm_head", w.head_VD.plain());
  return slots;
}

NamedTensors namedWeights(const ModelSpec& spec, const Weights& weights) {
  NamedTensors named;
  for (const WeightSlot& slot : weightSlots(spec, weights))
    named.emplace_back(slot.name, slot.view());
  return named;
}

namespace {

// Blocks of nf4 lie within rows.
void checkQuantization(const ModelSpec& spec, Quantization quantization) {
  if (quantization != Quantization::kNf4) return;
  for (const LayerTensor& tensor : layerTensors(spec)) {
    if (!tensor.matrix || tensor.columns % kNf4Block == 0) continue;
    fail(ErrorCode::kBadArgument, "nf4 takes ", kNf4Block,
         " adjacent weights of a row together, but ", tensor.parts.front().name,
         " of a layer has rows of ", tensor.columns, ", which is no multiple of ", kNf4Block,
         "; quantise to int8, or not at all");
  }
}

class WeightLoader {
 public:
  WeightLoader(const TensorReader& reader, const LoadModelOptions& options, Model& model,
               const Cancel& cancel)
      : reader_(reader), options_(options), model_(model), cancel_(cancel) {}

  Weights load() {
    Weights weights =
        allocateWeights(model_.spec, at::TensorOptions().dtype(model_.dtype).device(at::kMeta));
    const std::vector<WeightSlot> slots = weightSlots(model_.spec, weights);
    for (const WeightSlot& slot : slots) partsOf_[slot.whole.unsafeGetTensorImpl()].push_back(slot);
    changeWeights(
        model_.spec, weights, [&](const Matrix& shape) { return loadMatrix(shape.plain()); },
        [&](const at::Tensor& shape) {
          const at::Tensor vector = loadWhole(shape).to(model_.device);
          model_.bytes += static_cast<int64_t>(vector.nbytes());
          return vector;
        });
    // With the weights, so that what is free afterwards is free for good.
    const bool quantised = options_.quantization != Quantization::kNone;
    if (quantised && model_.kernels != nullptr) scratch_->reserve(model_.device, model_.dtype);
    return weights;
  }

 private:
  using Parts = std::vector<WeightSlot>;

  const Parts& partsOf(const at::Tensor& shape) const {
    return partsOf_.at(shape.unsafeGetTensorImpl());
  }

  at::Tensor empty(c10::IntArrayRef sizes) const {
    const at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(model_.dtype));
    preferHugePages(tensor);
    return tensor;
  }

  void read(const std::string& name, const at::Tensor& into) {
    reader_.read(name, into, cancel_);
    model_.parameterCount += into.numel();
  }

  at::Tensor loadWhole(const at::Tensor& shape) {
    const at::Tensor whole = empty(shape.sizes());
    for (const WeightSlot& part : partsOf(shape)) {
      read(part.name, whole.narrow(0, part.row, part.rows));
    }
    return whole;
  }

  Matrix loadMatrix(const at::Tensor& shape) {
    cancel_.check();
    const bool ofLayer = partsOf(shape).front().name.starts_with("model.layers.");
    const Matrix matrix = ofLayer && options_.quantization != Quantization::kNone
                              ? loadQuantised(shape)
                              : Matrix::ofModel(loadWhole(shape), model_.device);
    model_.bytes += matrix.bytes();
    return matrix;
  }

  // For the largest part, all the time: freed between the parts, its memory would be cut up by what
  // stays.
  const at::Tensor& partRoom() {
    if (partRoom_.defined()) return partRoom_;
    int64_t numbers = 0;
    for (const LayerTensor& tensor : layerTensors(model_.spec)) {
      for (const LayerTensor::Part& part : tensor.parts) {
        numbers = std::max(numbers, part.rows * tensor.columns);
      }
    }
    return partRoom_ = empty({numbers});
  }

  Matrix loadQuantised(const at::Tensor& shape) {
    const Parts& parts = partsOf(shape);
    std::vector<int64_t> rows;
    for (const WeightSlot& part : parts) rows.push_back(part.rows);
    Quantised quantised = allocateQuantised(options_.quantization, rows, shape.size(1));
    preferHugePages(quantised.codes);
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor part =
          partRoom().narrow(0, 0, parts[i].rows * shape.size(1)).view({parts[i].rows, -1});
      read(parts[i].name, part);
      if (quantisePart(quantised, i, part)) continue;
      fail(ErrorCode::kBadFile, parts[i].name,
           " has numbers that are not finite, which cannot be quantised");
    }
    return Matrix(quantised.to(model_.device), model_.dtype, scratch_);
  }

  const TensorReader& reader_;
  const LoadModelOptions& options_;
  Model& model_;
  const Cancel& cancel_;
  std::map<const at::TensorImpl*, Parts> partsOf_;
  std::shared_ptr<QuantisedScratch> scratch_ = std::make_shared<QuantisedScratch>();
  at::Tensor partRoom_;
};

}  // namespace

std::shared_ptr<Model> loadModel(const LoadModelOptions& options, const Cancel& cancel) {
  const at::Device device = resolveDevice(options.device.str());
  computeOn(device);
  checkSpec(options.spec);
  checkQuantization(options.spec, options.quantization);
  const TensorReader reader(options.weights);
  checkWeights(reader, options.spec);
  auto model = std::make_shared<Model>();
  model->spec = options.spec;
  model->device = device;
  model->dtype = options.dtype;
  model->quantization = options.quantization;
  model->kernels = gpuKernelsFor(device);
  model->weights = WeightLoader(reader, options, *model, cancel).load();
  return model;
}

}  // namespace acoer
