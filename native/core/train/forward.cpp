#include "train/forward.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <unordered_set>

#include "base/memory.h"
#include "ops/ops.h"
#include "train/gradients.h"
#include "train/head.h"
#include "train/layer.h"

namespace acoer {

// What one pass keeps.
struct PassTape {
  LayerPass pass;
  size_t firstKept;  // this layer and later ones keep their activations, earlier ones their input
  std::vector<LayerTape> layers;
  at::Tensor last_ND;    // residual stream at the completion rows
  Normed hidden;         // the same after the final norm
  at::Tensor slopes_ND;  // dlogprob/dhidden; for LoRA only
};

// The sequences, the temperature and the dropout key allow the pass to be run again with less kept.
struct Tape {
  PackedSequences sequences;
  double temperature;
  std::optional<DropoutKey> dropout;
  std::vector<std::unique_ptr<PassTape>> parts;  // the sequences in order
};

namespace {

// Fewer tokens than this are not worth a thread of their own.
constexpr int64_t kMinPartTokens = 64;

// Parts that run at the same time: one for each thread, unless memory is limited and its peak must
// not be chance.
size_t partsAtOnce() {
  return memoryIsCounted() ? 1 : static_cast<size_t>(std::max(1, at::get_num_threads()));
}

// The batch's own runs or, without any, runs of whole sequences of about the same number of tokens,
// one for each thread; the whole batch where a single pass uses all threads well.
std::vector<PackedSequences> partsOf(const Model& model, const PackedSequences& batch) {
  if (!isSmallOnCpu(model)) return {batch};
  std::vector<PackedSequences> parts;
  for (size_t run = 1; run < batch.runs.size(); ++run) {
    parts.push_back(batch.slice(static_cast<size_t>(batch.runs[run - 1]),
                                static_cast<size_t>(batch.runs[run])));
  }
  if (!parts.empty()) return parts;
  const auto tokens = std::ssize(batch.ids);
  const auto most = std::min<int64_t>(
      {static_cast<int64_t>(partsAtOnce()), batch.count(), tokens / kMinPartTokens});
  if (most < 2) return {batch};
  const auto count = static_cast<size_t>(batch.count());
  for (size_t begin = 0, end; begin < count; begin = end) {
    const int64_t left = most - std::ssize(parts);
    const int64_t share = (tokens - batch.offsets[begin]) / left;
    // A sequence belongs to the part in which more than half of it lies.
    for (end = begin + 1; end < count; ++end) {
      const int64_t middle = (batch.offsets[end] + batch.offsets[end + 1]) / 2;
      if (left > 1 && middle - batch.offsets[begin] > share) break;
    }
    parts.push_back(batch.slice(begin, end));
  }
  return parts;
}

void forEachPart(size_t parts, const std::function<void(size_t part)>& work) {
  if (parts == 1 || partsAtOnce() == 1) {
    for (size_t part = 0; part < parts; ++part) work(part);
    return;
  }
  at::parallel_for(0, static_cast<int64_t>(parts), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard noGrad;  // grad mode is thread-local
    for (int64_t part = begin; part < end; ++part) work(static_cast<size_t>(part));
  });
}

ScoreResult joined(std::vector<ScoreResult>&& parts) {
  ScoreResult all = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    const ScoreResult& part = parts[i];
    all.logprobs.insert(all.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
    all.entropies.insert(all.entropies.end(), part.entropies.begin(), part.entropies.end());
  }
  return all;
}

void checkPass(const PackedSequences& batch, const ModelSpec& spec, double temperature) {
  checkSequences(batch, spec);
  require(std::isfinite(temperature) && temperature > 0, "temperature", "above 0 and finite",
          temperature);
}

// Backward ends here: nothing below is trained.
size_t firstTrainedLayer(const Policy& policy) {
  if (!policy.isLora()) return 0;
  const auto adapted = [](const std::array<LoraPair, kNumTargets>& pairs) {
    return std::any_of(pairs.begin(), pairs.end(), [](const LoraPair& p) { return p.defined(); });
  };
  const auto first = std::find_if(policy.lora.begin(), policy.lora.end(), adapted);
  return static_cast<size_t>(first - policy.lora.begin());
}

// The residual stream after the last layer, before the final norm.
at::Tensor runLayers(const LayerPass& pass, PassTape* tape, const Cancel& cancel) {
  at::Tensor x_TD = pass.weights.embed_VD.rows(pass.layout.ids_T);
  if (tape) tape->layers.resize(pass.weights.layers.size());
  const size_t firstTrained = tape ? firstTrainedLayer(*pass.policy) : 0;
  for (size_t layer = 0; layer < pass.weights.layers.size(); ++layer) {
    cancel.check();
    const bool trained = tape && layer >= firstTrained;
    if (trained) tape->layers[layer].x_TD = x_TD;
    const bool keeps = trained && layer >= tape->firstKept;
    x_TD = layerForward(pass, layer, x_TD, keeps ? &tape->layers[layer] : nullptr);
  }
  return x_TD;
}

// The pass of score() and of forward(). Call with grad mode off.
ScoreResult runPass(const LayerPass& pass, double temperature, PassTape* tape,
                    const Cancel& cancel) {
  if (pass.layout.completion_N.numel() == 0) return {};
  const at::Tensor last_ND =
      runLayers(pass, tape, cancel).index_select(0, pass.layout.completion_N);
  const GpuKernels* kernels = pass.model.kernelsOf(KernelFamily::kTraining);
  const Normed hidden =
      rmsRotate(kernels, last_ND, pass.weights.finalNorm_D, pass.model.spec.rmsNormEps);
  const HeadResult head =
      headForward(kernels, hidden.y, pass.weights.head_VD, pass.layout.targets_N, temperature,
                  tape && pass.policy->isLora(), cancel);
  if (tape) {
    tape->last_ND = last_ND;
    tape->hidden = hidden;
    tape->slopes_ND = head.slopes_ND;
  }
  return {toDoubles(head.logprobs_N), toDoubles(head.entropies_N)};
}

// What one pass may keep when `parts` of them run at the same time.
int64_t defaultKeepBytes(const LayerPass& pass, size_t parts) {
  const at::Device device = pass.model.device;
  const int64_t head = headBytes(pass.layout.completion_N.numel(), pass.weights.head_VD);
  const int64_t left = std::max<int64_t>(0, availableBytes(device) - head);
  const double share = device.is_cpu() ? kKeepShareCpu : kKeepShareGpu;
  return static_cast<int64_t>(share * static_cast<double>(left) / static_cast<double>(parts));
}

// The last layers are kept: backward frees them first, before others are recomputed.
size_t firstKeptLayer(const LayerPass& pass, int64_t keepBytes) {
  const auto layers = std::ssize(pass.weights.layers);
  const int64_t fitting = std::min(layers, keepBytes / std::max<int64_t>(1, layerTapeBytes(pass)));
  const bool some = fitting == layers || pass.model.device.is_cpu();
  return static_cast<size_t>(some ? layers - fitting : layers);
}

ScoreResult forwardKeeping(std::optional<int64_t> keepBytes, Policy& policy,
                           const PackedSequences& batch, double temperature,
                           const std::optional<DropoutKey>& dropout, const Cancel& cancel) {
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(policy.model->device);
  const std::vector<PackedSequences> parts = partsOf(*policy.model, batch);
  const PassWeights weights = passWeights(*policy.model, &policy, dropout);
  const auto tape = std::make_shared<Tape>(Tape{batch, temperature, dropout, {}});
  tape->parts.resize(parts.size());
  std::vector<ScoreResult> results(parts.size());
  forEachPart(parts.size(), [&](size_t i) {
    LayerPass pass = makeLayerPass(*policy.model, &policy, weights, parts[i], dropout);
    const int64_t most = keepBytes ? *keepBytes : defaultKeepBytes(pass, parts.size());
    const size_t firstKept = firstKeptLayer(pass, most);
    auto part = std::make_unique<PassTape>(PassTape{std::move(pass), firstKept, {}, {}, {}, {}});
    results[i] = runPass(part->pass, temperature, part.get(), cancel);
    tape->parts[i] = std::move(part);
  });
  policy.tape = tape;
  return joined(std::move(results));
}

at::Tensor headInputGradient(const PassTape& tape, double temperature, const at::Tensor& d_N,
                             GradientSink& sink, const Cancel& cancel) {
  const LayerPass& pass = tape.pass;
  if (pass.policy->isLora()) {
    return tape.slopes_ND * d_N.to(tape.slopes_ND.scalar_type()).unsqueeze(1);
  }
  return headBackward(tape.hidden.y, pass.weights.head_VD, pass.layout.targets_N, temperature, d_N,
                      sink, cancel);
}

// The gradient with respect to the residual stream after the last layer, [T, D].
at::Tensor outputGradient(const PassTape& tape, double temperature,
                          const std::vector<double>& dLogprobs, GradientSink& sink,
                          const Cancel& cancel) {
  const LayerPass& pass = tape.pass;
  const at::Tensor& finalNorm_D = pass.weights.finalNorm_D;
  const at::Tensor d_N = onDevice(at::tensor(dLogprobs, at::kDouble), pass.model.device)
                             .to(tape.hidden.inverseRms.scalar_type());
  const at::Tensor dHidden_ND = headInputGradient(tape, temperature, d_N, sink, cancel);
  const at::Tensor dWeight_D = pass.policy->isLora() ? at::Tensor() : sink.buffer(finalNorm_D);
  const at::Tensor dLast_ND = at::empty_like(tape.last_ND);
  rmsRotateBackward(pass.model.kernelsOf(KernelFamily::kTraining), dHidden_ND,
                    {tape.last_ND, tape.hidden.inverseRms, finalNorm_D, {}, dWeight_D}, {},
                    dLast_ND);
  at::Tensor dx_TD =
      at::zeros({pass.layout.tokens, pass.model.spec.hiddenSize}, dLast_ND.options());
  return dx_TD.index_copy_(0, pass.layout.completion_N, dLast_ND);
}

// Each layer's part of the tape is freed once it has been used.
void runPassBackward(PassTape& tape, double temperature, const std::vector<double>& dLogprobs,
                     GradientSink& sink, const Cancel& cancel) {
  const LayerPass& pass = tape.pass;
  at::Tensor dx_TD = outputGradient(tape, temperature, dLogprobs, sink, cancel);
  const size_t firstTrained = firstTrainedLayer(*pass.policy);
  for (size_t layer = tape.layers.size(); layer-- > firstTrained;) {
    cancel.check();
    LayerTape activations = std::move(tape.layers[layer]);
    if (layer < tape.firstKept) layerRecompute(pass, layer, activations.x_TD, activations);
    const bool needsInput = layer > firstTrained || !pass.policy->isLora();
    dx_TD = layerBackward(pass, layer, activations, dx_TD, sink, needsInput);
  }
  if (!pass.policy->isLora()) {
    sink.add(pass.weights.embed_VD.plain(),
             at::embedding_dense_backward(dx_TD, pass.layout.ids_T, pass.model.spec.vocabSize, -1,
                                          false));
  }
}

bool allZero(const std::vector<double>& slopes) {
  return std::all_of(slopes.begin(), slopes.end(), [](double slope) { return slope == 0; });
}

// Parts are added in their order, whatever the number of threads; to the policy's sums when all
// have succeeded.
void runBackward(Policy& policy, Tape& tape, const std::vector<double>& dLogprobs,
                 const Cancel& cancel) {
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(tape.parts.front()->pass.model.device);
  std::vector<std::vector<double>> slopes;
  auto from = dLogprobs.begin();
  for (const auto& part : tape.parts) {
    const auto to = from + part->pass.layout.completion_N.numel();
    slopes.emplace_back(from, to);
    from = to;
  }
  const size_t parts = tape.parts.size(), atOnce = std::min(parts, partsAtOnce());
  at::Tensor sums;
  for (size_t first = 0; first < parts; first += atOnce) {
    std::vector<GradientSink> sinks(std::min(atOnce, parts - first));
    forEachPart(sinks.size(), [&](size_t i) {
      const size_t part = first + i;
      if (allZero(slopes[part])) return;
      runPassBackward(*tape.parts[part], tape.temperature, slopes[part], sinks[i], cancel);
      tape.parts[part].reset();
    });
    const bool all = sinks.size() == parts;
    at::Tensor& to = all ? policy.gradientSums.flat : sums;
    for (const GradientSink& sink : sinks) addGradients(policy, sink, to);
  }
  if (sums.defined()) addSums(policy, std::move(sums));
  policy.gradientSums.lent = false;
}

void checkSlopes(const std::vector<double>& dLogprobs, int64_t completionTokens) {
  if (std::ssize(dLogprobs) != completionTokens) {
    fail(ErrorCode::kBadShape, "dLogprobs has ", dLogprobs.size(), " numbers for ",
         completionTokens, " completion tokens of the last forward");
  }
  for (size_t t = 0; t < dLogprobs.size(); ++t) {
    if (std::isfinite(dLogprobs[t])) continue;
    fail(ErrorCode::kBadArgument, "dLogprobs[", t, "] is not finite");
  }
}

}  // namespace

ScoreResult score(const Model& model, const Policy* policy, const PackedSequences& batch,
                  double temperature, const Cancel& cancel) {
  if (policy && policy->model.get() != &model) {
    fail(ErrorCode::kBadArgument, "the policy belongs to another model");
  }
  checkPass(batch, model.spec, temperature);
  const at::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(model.device);
  const std::vector<PackedSequences> parts = partsOf(model, batch);
  const PassWeights weights = passWeights(model, policy, std::nullopt);
  std::vector<ScoreResult> results(parts.size());
  forEachPart(parts.size(), [&](size_t i) {
    const LayerPass pass = makeLayerPass(model, policy, weights, parts[i], std::nullopt);
    results[i] = runPass(pass, temperature, nullptr, cancel);
  });
  return joined(std::move(results));
}

ScoreResult forward(Policy& policy, const PackedSequences& batch, double temperature,
                    const std::optional<DropoutKey>& dropout, const Cancel& cancel,
                    std::optional<int64_t> keepBytes) {
  policy.tape.reset();
  checkPass(batch, policy.model->spec, temperature);
  try {
    return forwardKeeping(keepBytes, policy, batch, temperature, dropout, cancel);
  } catch (...) {
    if (batch.count() != 1 || keepBytes == 0 || !handlingOutOfMemory()) throw;
  }
  releaseFreedMemory(policy.model->device);
  return forwardKeeping(0, policy, batch, temperature, dropout, cancel);
}

void backward(Policy& policy, const std::vector<double>& dLogprobs, const Cancel& cancel) {
  std::shared_ptr<Tape> tape = std::move(policy.tape);
  if (!tape) {
    fail(ErrorCode::kBadArgument,
         "call forward first: the policy holds no forward pass to differentiate (backward, "
         "another forward, step, restore and zeroGradients drop it)");
  }
  checkSlopes(dLogprobs, tape->sequences.completionTokens());
  if (allZero(dLogprobs)) return;
  const PassTape& front = *tape->parts.front();
  const bool canKeepLess = tape->sequences.count() == 1 && front.firstKept < front.layers.size();
  try {
    return runBackward(policy, *tape, dLogprobs, cancel);
  } catch (...) {
    if (!canKeepLess || !handlingOutOfMemory()) throw;
  }
  const PackedSequences sequences = std::move(tape->sequences);
  const double temperature = tape->temperature;
  const std::optional<DropoutKey> dropout = tape->dropout;
  tape.reset();
  releaseFreedMemory(policy.model->device);
  forward(policy, sequences, temperature, dropout, cancel, 0);
  backward(policy, dLogprobs, cancel);
}

int64_t tapeBytes(const Policy& policy) {
  if (!policy.tape) return 0;
  std::vector<at::Tensor> tensors;
  for (const auto& part : policy.tape->parts) {
    tensors.insert(tensors.end(),
                   {part->last_ND, part->hidden.y, part->hidden.inverseRms, part->slopes_ND});
    listTensors(part->pass, tensors);
    for (const LayerTape& layer : part->layers) listTensors(layer, tensors);
  }
  // Tensors share storages, some with the parameters.
  std::unordered_set<const c10::StorageImpl*> counted;
  for (const Parameter& parameter : policy.parameters) {
    counted.insert(parameter.value.storage().unsafeGetStorageImpl());
  }
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const c10::Storage& storage = tensor.storage();
    if (counted.insert(storage.unsafeGetStorageImpl()).second) {
      total += static_cast<int64_t>(storage.nbytes());
    }
  }
  return total;
}

}  // namespace acoer
