#include "to_js.h"

#include <algorithm>
#include <initializer_list>
#include <variant>

namespace acoer {
namespace {

template <typename T>
Napi::TypedArrayOf<T> typedArray(Napi::Env env, const std::vector<T>& values) {
  auto array = Napi::TypedArrayOf<T>::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

const char* dtypeName(at::ScalarType dtype) {
  if (dtype == at::kDouble) return "float64";
  return dtype == at::kBFloat16 ? "bfloat16" : "float32";
}

const char* finishName(FinishReason finish) {
  if (finish == FinishReason::kStop) return "stop";
  if (finish == FinishReason::kLength) return "length";
  return finish == FinishReason::kPartial ? "partial" : "cancelled";
}

// A property's value; numbers become JavaScript's.
using Field = std::variant<bool, int64_t, double, std::string, Napi::Value>;

Napi::Object record(Napi::Env env, std::initializer_list<std::pair<const char*, Field>> fields) {
  auto object = Napi::Object::New(env);
  for (const auto& [name, field] : fields) {
    object[name] =
        std::visit([env](const auto& value) { return Napi::Value::From(env, value); }, field);
  }
  return object;
}

}  // namespace

Napi::Value toJs(Napi::Env env, const ModelFacts& facts) {
  const Field quantization = facts.quantization == Quantization::kNone
                                 ? Field(env.Null())
                                 : Field(std::string(quantizationName(facts.quantization)));
  return record(env, {{"model", facts.model},
                      {"dtype", dtypeName(facts.dtype)},
                      {"quantization", quantization},
                      {"device", facts.device},
                      {"parameterCount", facts.parameterCount},
                      {"bytes", facts.bytes},
                      {"vocabSize", facts.spec.vocabSize},
                      {"hiddenSize", facts.spec.hiddenSize},
                      {"intermediateSize", facts.spec.intermediateSize},
                      {"numLayers", facts.spec.numLayers},
                      {"numHeads", facts.spec.numHeads},
                      {"numKvHeads", facts.spec.numKvHeads},
                      {"headDim", facts.spec.headDim},
                      {"maxPositions", facts.spec.maxPositions},
                      {"tieWordEmbeddings", facts.spec.tieWordEmbeddings},
                      {"qkvBias", facts.spec.qkvBias},
                      {"qkNorm", facts.spec.qkNorm}});
}

Napi::Value toJs(Napi::Env env, const PolicyFacts& facts) {
  const bool lora = facts.options.kind == PolicyOptions::Kind::kLora;
  auto targets = Napi::Array::New(env);
  for (size_t i = 0; lora && i < kTargetNames.size(); i++) {
    if (facts.options.targets[i])
      targets[targets.Length()] = Napi::String::New(env, kTargetNames[i]);
  }
  auto matrices = Napi::Array::New(env, facts.matrices.size());
  for (uint32_t i = 0; i < facts.matrices.size(); i++) {
    const LoraMatrix& matrix = facts.matrices[i];
    matrices[i] = record(env, {{"layer", matrix.layer},
                               {"module", kTargetNames[matrix.target]},
                               {"rank", matrix.rank},
                               {"alpha", matrix.alpha}});
  }
  auto shardOffsets = Napi::Array::New(env, facts.shardOffsets.size());
  for (uint32_t i = 0; i < facts.shardOffsets.size(); i++) {
    shardOffsets[i] = Napi::Number::New(env, static_cast<double>(facts.shardOffsets[i]));
  }
  return record(env, {{"policy", facts.policy},
                      {"kind", lora ? "lora" : "full"},
                      {"parameterCount", facts.parameterCount},
                      {"rank", lora ? facts.options.rank : 0},
                      {"alpha", lora ? facts.options.alpha : 0.0},
                      {"rslora", lora && facts.options.rankStabilized},
                      {"targets", targets},
                      {"matrices", matrices},
                      {"shardOffsets", shardOffsets}});
}

Napi::Value toJs(Napi::Env env, const KernelFacts& facts) {
  if (facts.file.empty()) return env.Null();
  return record(env, {{"file", facts.file},
                      {"card", facts.card},
                      {"cardId", facts.cardId},
                      {"driver", facts.driver}});
}

Napi::Value toJs(Napi::Env env, const std::vector<KernelFigure>& figures) {
  auto list = Napi::Array::New(env, figures.size());
  for (uint32_t i = 0; i < figures.size(); i++) {
    list[i] = record(env, {{"kernel", figures[i].kernel},
                           {"family", familyName(figures[i].family)},
                           {"error", figures[i].error},
                           {"allowed", figures[i].allowed},
                           {"fault", figures[i].fault}});
  }
  return list;
}

Napi::Value toJs(Napi::Env env, const GeneratedSequence& sequence) {
  return record(env, {{"request", sequence.request},
                      {"sample", sequence.sample},
                      {"ids", typedArray(env, sequence.ids)},
                      {"logprobs", typedArray(env, sequence.logprobs)},
                      {"entropies", typedArray(env, sequence.entropies)},
                      {"finish", finishName(sequence.finish)}});
}

Napi::Value toJs(Napi::Env env, const GenerateProgress& progress) {
  return record(env, {{"ended", progress.ended},
                      {"total", progress.total},
                      {"promptTokens", progress.promptTokens},
                      {"inFlight", typedArray(env, progress.inFlight)}});
}

Napi::Value toJs(Napi::Env env, const GenerateStats& stats) {
  return record(env, {{"promptTokens", stats.promptTokens},
                      {"keptTokens", stats.keptTokens},
                      {"newTokens", stats.newTokens},
                      {"decodeSteps", stats.decodeSteps},
                      {"proposedTokens", stats.proposedTokens},
                      {"acceptedTokens", stats.acceptedTokens},
                      {"peakSlots", stats.peakSlots},
                      {"prefillMs", stats.prefillMs},
                      {"decodeMs", stats.decodeMs},
                      {"fallback", stats.fallback}});
}

Napi::Object decoderEvent(Napi::Env env, const char* kind) { return record(env, {{"kind", kind}}); }

Napi::Value toJs(Napi::Env env, const NewTokens& tokens) {
  return record(env, {{"kind", "tokens"},
                      {"request", tokens.request},
                      {"sample", tokens.sample},
                      {"ids", typedArray(env, tokens.ids)},
                      {"logprobs", typedArray(env, tokens.logprobs)}});
}

Napi::Value refusedEvent(Napi::Env env, int64_t request, const Napi::Error& error) {
  return record(env, {{"kind", "refused"}, {"request", request}, {"error", error.Value()}});
}

Napi::Value toJs(Napi::Env env, const ScoreResult& result) {
  return record(env, {{"logprobs", typedArray(env, result.logprobs)},
                      {"entropies", typedArray(env, result.entropies)}});
}

Napi::Value toJs(Napi::Env env, const StepResult& result) {
  return record(env, {{"gradNorm", result.gradNorm}, {"applied", result.applied}});
}

Napi::Value toJs(Napi::Env env, const std::vector<TensorFacts>& tensors) {
  auto table = Napi::Object::New(env);
  for (const TensorFacts& tensor : tensors) {
    auto shape = Napi::Array::New(env, tensor.shape.size());
    for (uint32_t i = 0; i < tensor.shape.size(); i++) shape[i] = tensor.shape[i];
    table[tensor.name] = record(env, {{"shape", shape}, {"data", typedArray(env, tensor.data)}});
  }
  return table;
}

Napi::Value toJs(Napi::Env env, const std::vector<MergedMatrix>& merged) {
  auto list = Napi::Array::New(env, merged.size());
  for (uint32_t i = 0; i < merged.size(); i++) {
    list[i] = record(env, {{"name", merged[i].name},
                           {"weightRms", merged[i].weightRms},
                           {"updateRms", merged[i].updateRms},
                           {"errorRms", merged[i].errorRms},
                           {"unchanged", merged[i].unchanged}});
  }
  return list;
}

Napi::Value toJs(Napi::Env env, const MemoryFacts& facts) {
  const auto& tensors = facts.tensors;
  return record(env, {{"engineBytes", facts.engineBytes},
                      {"residentBytes", facts.process.residentBytes},
                      {"peakResidentBytes", facts.process.peakResidentBytes},
                      {"deviceFreeBytes", facts.device.freeBytes},
                      {"deviceTotalBytes", facts.device.totalBytes},
                      {"tensorBytes", tensors ? Field(tensors->bytes) : env.Null()},
                      {"peakTensorBytes", tensors ? Field(tensors->peakBytes) : env.Null()}});
}

Napi::Value toJs(Napi::Env env, const Ceilings& ceilings) {
  return record(env, {{"readBytesPerSecond", ceilings.readBytesPerSecond},
                      {"matmulFlopsPerSecond", ceilings.matmulFlopsPerSecond}});
}

Napi::Value toJs(Napi::Env env, const DeviceFacts& facts, int threads) {
  return record(env, {{"device", facts.device},
                      {"name", facts.name},
                      {"threads", threads},
                      {"totalBytes", facts.totalBytes},
                      {"freeBytes", facts.freeBytes}});
}

Pack sharedNumbers(const at::Tensor& flat) {
  return [flat](Napi::Env env) -> Napi::Value {
    const auto count = static_cast<size_t>(flat.numel());
    auto* owner = new at::Tensor(flat);
    const auto buffer = Napi::ArrayBuffer::New(
        env, flat.mutable_data_ptr(), flat.nbytes(),
        [](Napi::Env, void*, at::Tensor* tensor) { delete tensor; }, owner);
    if (flat.scalar_type() == at::kFloat) return Napi::Float32Array::New(env, count, buffer, 0);
    return Napi::Float64Array::New(env, count, buffer, 0);
  };
}

}  // namespace acoer
