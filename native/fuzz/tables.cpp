// Tables of tensors: arbitrary ones, those of models and adapters, and those that a policy is
// restored from.
#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "input.h"
#include "model/weights.h"
#include "targets.h"

namespace acoer::fuzz {

namespace {

// Two layers of a few hundred weights; the inputs of `adapter` and `restore` are written for it.
std::shared_ptr<Model> smallModel() {
  static const std::shared_ptr<Model> model = [] {
    auto made = std::make_shared<Model>();
    ModelSpec& spec = made->spec;
    spec.vocabSize = 8, spec.hiddenSize = 4, spec.intermediateSize = 6, spec.numLayers = 2;
    spec.numHeads = 2, spec.numKvHeads = 1, spec.headDim = 2, spec.maxPositions = 16;
    spec.tieWordEmbeddings = true;
    made->weights = allocateWeights(spec, at::TensorOptions().dtype(at::kFloat));
    for (auto& [name, view] : namedWeights(spec, made->weights)) view.fill_(0.5);
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

// The bytes of all tensors that restoring can change.
std::string stateOf(const Policy& policy) {
  std::string bytes;
  for (const Parameter& p : policy.parameters) {
    for (const at::Tensor* tensor : {&p.value, &p.expAvg, &p.expAvgSq}) {
      bytes.append(static_cast<const char*>(tensor->data_ptr()), tensor->nbytes());
    }
  }
  return bytes;
}

// A rejected file changes nothing.
void restore(Policy& policy, const std::function<void()>& read) {
  const auto before = stateOf(policy);
  const auto stepCount = policy.stepCount;
  if (accepted(read)) return;
  require(before == stateOf(policy), "a rejected file leaves the tensors as they were");
  require(policy.stepCount == stepCount, "a rejected file leaves the step count as it was");
}

// Reads a tensor into memory of its own type, as the engine would.
void readTensor(const TensorReader& reader, const StoredTensor& tensor, const TensorTable& table) {
  // The engine only asks for shapes of its own, which checkSpec bounds. libtorch's strides overflow
  // also where another size is 0.
  int64_t count = 1;
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(count, std::max<int64_t>(1, size), &count)) return;
    if (count > 2e12) return;
  }
  const auto dtype = tensor.dtype == "I64" ? at::kLong : at::kFloat;
  // Once check() has accepted a tensor, its size in the table is right.
  if (!accepted([&] { reader.check(tensor.name, tensor.shape, dtype); })) return;
  const at::Tensor out = at::empty(tensor.shape, at::TensorOptions().dtype(dtype));
  reader.read(tensor.name, out, Cancel{});
  if (tensor.dtype != "I64" && tensor.dtype != "F32") return;
  std::string bytes(out.nbytes(), '\0');
  const int file = table.files[static_cast<size_t>(tensor.file)].descriptor;
  require(
      ::pread(file, bytes.data(), bytes.size(), tensor.begin) == static_cast<ssize_t>(bytes.size()),
      "a tensor is inside its file");
  require(bytes.empty() || std::memcmp(out.data_ptr(), bytes.data(), bytes.size()) == 0,
          "a tensor holds the bytes of the file");
}

}  // namespace

void fuzzTensors(std::string_view bytes) {
  const Input input(bytes);
  accepted([&] {
    const TensorReader reader(input.table);
    for (const auto& [name, tensor] : reader.tensors()) readTensor(reader, *tensor, input.table);
  });
}

void fuzzModel(std::string_view bytes) {
  const Input input(bytes);
  accepted([&] {
    const auto model =
        loadModel({.spec = input.spec, .weights = input.table, .dtype = input.dtype}, Cancel{});
    changeWeights(
        model->spec, model->weights,
        [](const Matrix& w) {
          w.memory().sum();
          return w;
        },
        [](const at::Tensor& vector) {
          vector.sum();
          return vector;
        });
  });
}

void fuzzAdapter(std::string_view bytes) {
  const Input input(bytes);
  accepted([&] {
    const auto policy = loadAdapter(smallModel(), input.lora, input.table);
    require(!policy->parameters.empty(), "an adapter has parameters");
    for (const Parameter& p : policy->parameters) p.value.sum();
  });
}

void fuzzRestore(std::string_view bytes) {
  static const auto lora = createPolicy(smallModel(), options(PolicyOptions::Kind::kLora));
  static const auto full = createPolicy(smallModel(), options(PolicyOptions::Kind::kFull));
  const Input input(bytes);
  for (Policy* policy : {lora.get(), full.get()}) {
    restore(*policy, [&] { restorePolicy(*policy, input.table); });
    restore(*policy, [&] { restoreOptimizer(*policy, input.table); });
  }
}

}  // namespace acoer::fuzz
