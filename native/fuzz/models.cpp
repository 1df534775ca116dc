// Directories of models and adapters, and the files a policy is restored from.
#include <ATen/ATen.h>

#include "input.h"
#include "policy.h"
#include "safetensors.h"
#include "targets.h"
#include "weights.h"

namespace acoer::fuzz {

namespace {

// Two layers of a few hundred weights; the inputs of `adapter` and `restore` are written for it.
std::shared_ptr<Model> smallModel() {
  static const std::shared_ptr<Model> model = [] {
    auto made = std::make_shared<Model>();
    ModelConfig& c = made->config;
    c.vocabSize = 8, c.hiddenSize = 4, c.intermediateSize = 6, c.numLayers = 2;
    c.numHeads = 2, c.numKvHeads = 1, c.headDim = 2, c.maxPositions = 16;
    c.tieWordEmbeddings = true;
    made->weights = allocateWeights(c, at::TensorOptions().dtype(at::kFloat));
    for (auto& [name, view] : namedWeights(c, made->weights)) view.fill_(0.5);
    return made;
  }();
  return model;
}

PolicyOptions options(PolicyOptions::Kind kind) {
  PolicyOptions o;
  o.kind = kind;
  o.rank = 2;
  o.targets.fill(true);
  return o;
}

// The bytes of everything that a file of either kind fills.
std::string stateOf(const Policy& policy) {
  std::string bytes;
  for (const Parameter& p : policy.parameters) {
    for (const at::Tensor* tensor : {&p.value, &p.expAvg, &p.expAvgSq}) {
      bytes.append(static_cast<const char*>(tensor->data_ptr()), tensor->nbytes());
    }
  }
  return bytes;
}

// A refused file changes nothing.
void restore(Policy& policy, const std::function<void()>& read) {
  const auto before = stateOf(policy);
  const auto stepCount = policy.stepCount;
  const auto version = policy.version;
  if (accepted(read)) return;
  require(before == stateOf(policy), "a refused file leaves the tensors as they were");
  require(policy.stepCount == stepCount && policy.version == version,
          "a refused file leaves the counters as they were");
}

}  // namespace

void fuzzModel(std::string_view input) {
  const auto parts = sections(input);
  std::vector<std::pair<std::string, std::string_view>> files{{"config.json", parts[0]}};
  if (parts.size() == 2) files.emplace_back("model.safetensors", parts[1]);
  if (parts.size() > 2) {
    files.emplace_back("model.safetensors.index.json", parts[1]);
    files.emplace_back("a.safetensors", parts[2]);
  }
  if (parts.size() > 3) files.emplace_back("b.safetensors", parts[3]);
  const std::string folder = folderWith(files);
  accepted([&] {
    const auto model = loadModel({.directory = folder}, Cancel{});
    // float64 from files of 16 bits: four times their size.
    require(static_cast<size_t>(model->bytes) <= 4 * input.size(), "weights come from the files");
    for (const auto& [name, view] : namedWeights(model->config, model->weights)) view.sum();
  });
}

void fuzzAdapter(std::string_view input) {
  const auto parts = sections(input);
  const std::string folder =
      folderWith({{"adapter_config.json", parts[0]},
                  {"adapter_model.safetensors", parts.size() > 1 ? parts[1] : ""}});
  accepted([&] {
    const auto policy = loadAdapter(smallModel(), folder);
    require(!policy->parameters.empty(), "an adapter has parameters");
    for (const Parameter& p : policy->parameters) p.value.sum();
  });
}

void fuzzRestore(std::string_view input) {
  static const auto lora = createPolicy(smallModel(), options(PolicyOptions::Kind::kLora));
  static const auto full = createPolicy(smallModel(), options(PolicyOptions::Kind::kFull));
  const MemoryFile memory(input);
  for (Policy* policy : {lora.get(), full.get()}) {
    restore(*policy, [&] { restorePolicy(*policy, memory.path()); });
    restore(*policy, [&] { restoreOptimizer(*policy, memory.path()); });
  }
}

}  // namespace acoer::fuzz
