#include "model.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <functional>
#include <map>
#include <set>

#include "device.h"
#include "json.h"
#include "safetensors.h"
#include "weights.h"

namespace acoer {

namespace {

bool exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

// The files that together hold the weights.
std::vector<std::string> weightFiles(const std::string& directory) {
  if (const std::string single = directory + "/model.safetensors"; exists(single)) return {single};
  const std::string indexPath = directory + "/model.safetensors.index.json";
  if (!exists(indexPath)) {
    fail(ErrorCode::kBadFile, directory +
                                  " holds neither model.safetensors nor "
                                  "model.safetensors.index.json; a Hugging Face model directory "
                                  "with safetensors weights is needed");
  }
  const Json index = readJsonFile(indexPath);
  const Json* map = index.find("weight_map");
  if (!map || !map->asObject()) fail(ErrorCode::kBadFile, indexPath + " lacks weight_map");
  std::set<std::string> names;
  for (const auto& [tensor, file] : *map->asObject()) {
    if (!file.asString() || file.asString()->find('/') != std::string::npos) {
      fail(ErrorCode::kBadFile, indexPath + " names no plain file for the tensor " + tensor);
    }
    names.insert(*file.asString());
  }
  if (names.empty()) fail(ErrorCode::kBadFile, indexPath + " has an empty weight_map");
  std::vector<std::string> paths;
  for (const auto& name : names) paths.push_back(directory + "/" + name);
  return paths;
}

// Tensors that some checkpoints carry and that hold nothing of their own.
bool harmless(const ModelConfig& config, const std::string& name) {
  const auto endsWith = [&](const std::string& tail) {
    return name.size() >= tail.size() &&
           name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
  };
  return endsWith(".rotary_emb.inv_freq") || (config.tieWordEmbeddings && name == "lm_head.weight");
}

// Filling gigabytes in pages of 4 KB costs more time than reading them; a kernel without huge pages
// ignores this.
void preferHugePages(const at::Tensor& tensor) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  if (!tensor.is_cpu()) return;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  const uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (begin + tensor.nbytes()) / kHugePage * kHugePage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

Weights allocateWeights(const ModelConfig& c, at::TensorOptions options) {
  Weights w;
  const auto make = [&](c10::IntArrayRef shape) {
    const at::Tensor tensor = at::empty(shape, options);
    preferHugePages(tensor);
    return tensor;
  };
  w.embed_VD = make({c.vocabSize, c.hiddenSize});
  w.head_VD = c.tieWordEmbeddings ? w.embed_VD : make({c.vocabSize, c.hiddenSize});
  w.finalNorm_D = make({c.hiddenSize});
  for (int64_t i = 0; i < c.numLayers; ++i) {
    w.layers.push_back({.inputNorm_D = make({c.hiddenSize}),
                        .qkv_ED = make({c.qkvRows(), c.hiddenSize}),
                        .qNorm_K = make({c.headDim}),
                        .kNorm_K = make({c.headDim}),
                        .o_DHK = make({c.hiddenSize, c.qRows()}),
                        .postNorm_D = make({c.hiddenSize}),
                        .gateUp_2FD = make({2 * c.intermediateSize, c.hiddenSize}),
                        .down_DF = make({c.hiddenSize, c.intermediateSize})});
  }
  return w;
}

std::vector<WeightSlot> weightSlots(const ModelConfig& c, const Weights& w) {
  std::vector<WeightSlot> slots;
  const auto add = [&](const std::string& name, const at::Tensor& whole, int64_t row = 0,
                       int64_t rows = -1) {
    slots.push_back({name + ".weight", whole, row, rows < 0 ? whole.size(0) : rows});
  };
  add("model.embed_tokens", w.embed_VD);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    const LayerWeights& layer = w.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    add(prefix + "self_attn.q_proj", layer.qkv_ED, 0, c.qRows());
    add(prefix + "self_attn.k_proj", layer.qkv_ED, c.qRows(), c.kvRows());
    add(prefix + "self_attn.v_proj", layer.qkv_ED, c.qRows() + c.kvRows(), c.kvRows());
    add(prefix + "self_attn.o_proj", layer.o_DHK);
    add(prefix + "self_attn.q_norm", layer.qNorm_K);
    add(prefix + "self_attn.k_norm", layer.kNorm_K);
    add(prefix + "mlp.gate_proj", layer.gateUp_2FD, 0, c.intermediateSize);
    add(prefix + "mlp.up_proj", layer.gateUp_2FD, c.intermediateSize, c.intermediateSize);
    add(prefix + "mlp.down_proj", layer.down_DF);
    add(prefix + "input_layernorm", layer.inputNorm_D);
    add(prefix + "post_attention_layernorm", layer.postNorm_D);
  }
  add("model.norm", w.finalNorm_D);
  if (!c.tieWordEmbeddings) add("lm_head", w.head_VD);
  return slots;
}

std::vector<std::pair<std::string, at::Tensor>> namedWeights(const ModelConfig& config,
                                                             const Weights& weights) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const WeightSlot& slot : weightSlots(config, weights))
    named.emplace_back(slot.name, slot.view());
  return named;
}

namespace {

// Calls `use` for each tensor of the files with the weight that it is for: every weight exactly
// once, and nothing beside them.
void matchWeights(
    const std::vector<std::string>& paths, const ModelConfig& config, const Weights& weights,
    const std::function<void(const SafetensorsFile&, const std::string&, const at::Tensor&)>& use) {
  std::map<std::string, at::Tensor> missing;
  for (auto& [name, view] : namedWeights(config, weights)) missing.emplace(name, view);
  std::set<std::string> seen;
  for (const std::string& path : paths) {
    const SafetensorsFile file(path);
    for (const auto& [name, entry] : file.entries()) {
      if (harmless(config, name)) continue;
      if (!seen.insert(name).second) {
        fail(ErrorCode::kBadFile, path + " holds the tensor " + name + " a second time");
      }
      const auto slot = missing.find(name);
      if (slot == missing.end()) {
        fail(ErrorCode::kBadFile, path + " holds the tensor " + name +
                                      ", which a dense Qwen3 of this config.json does not have");
      }
      use(file, name, slot->second);
      missing.erase(slot);
    }
  }
  if (!missing.empty()) {
    fail(ErrorCode::kBadFile, paths.front() + (paths.size() > 1 ? " and its fellow shards" : "") +
                                  " lack the tensor " + missing.begin()->first + " (and " +
                                  std::to_string(missing.size() - 1) + " more)");
  }
}

// Refuses files that do not hold what config.json describes, before memory is taken for it: a
// config.json of a hundred bytes can describe terabytes.
void checkWeights(const std::vector<std::string>& paths, const ModelConfig& config) {
  int64_t count = 0;
  for (const std::string& path : paths) {
    count += static_cast<int64_t>(SafetensorsFile(path).entries().size());
  }
  if (config.numLayers > count) {
    fail(ErrorCode::kBadFile, paths.front() + (paths.size() > 1 ? " and its fellow shards" : "") +
                                  " lack tensors: " + std::to_string(config.numLayers) +
                                  " layers (num_hidden_layers of config.json) cannot lie in " +
                                  std::to_string(count) + " tensors");
  }
  const Weights shapes =
      allocateWeights(config, at::TensorOptions().dtype(at::kFloat).device(at::kMeta));
  matchWeights(paths, config, shapes, [](const auto& file, const auto& name, const auto& shape) {
    file.check(name, shape.sizes(), shape.scalar_type());
  });
}

}  // namespace

void readWeights(const std::vector<std::string>& paths, const ModelConfig& config,
                 const Weights& weights, const Cancel& cancel) {
  matchWeights(paths, config, weights, [&](const auto& file, const auto& name, const auto& out) {
    file.read(name, out, cancel);
  });
}

std::shared_ptr<Model> loadModel(const LoadModelOptions& options, const Cancel& cancel) {
  const at::Device device = resolveDevice(options.device.str());
  auto model = std::make_shared<Model>();
  model->config = readModelConfig(options.directory);
  model->device = device;
  model->dtype =
      options.dtype == at::ScalarType::Undefined ? model->config.storedDtype : options.dtype;
  // Nothing computes in float16, whose range is too small for training; float32 holds its values.
  if (model->dtype == at::kHalf) model->dtype = at::kFloat;
  if (!c10::isFloatingType(model->dtype)) {
    fail(ErrorCode::kBadArgument,
         std::string("a model cannot be loaded as ") + c10::toString(model->dtype));
  }
  const std::vector<std::string> files = weightFiles(options.directory);
  checkWeights(files, model->config);
  Weights& weights = model->weights;
  weights = allocateWeights(model->config, at::TensorOptions().dtype(model->dtype));
  readWeights(files, model->config, weights, cancel);
  if (!device.is_cpu()) moveWeights(weights, device);
  for (const auto& [name, view] : namedWeights(model->config, weights)) {
    model->parameterCount += view.numel();
    model->bytes += view.numel() * view.element_size();
  }
  return model;
}

void moveWeights(Weights& w, at::Device device) {
  const bool tied = w.head_VD.is_same(w.embed_VD);
  const auto move = [&](at::Tensor& tensor) { tensor = tensor.to(device); };
  move(w.embed_VD);
  if (tied) {
    w.head_VD = w.embed_VD;
  } else {
    move(w.head_VD);
  }
  move(w.finalNorm_D);
  for (LayerWeights& layer : w.layers) {
    for (at::Tensor* tensor :
         {&layer.inputNorm_D, &layer.qkv_ED, &layer.qNorm_K, &layer.kNorm_K, &layer.o_DHK,
          &layer.postNorm_D, &layer.gateUp_2FD, &layer.down_DF}) {
      move(*tensor);
    }
  }
}

}  // namespace acoer
