#include "to_js.h"

#include <algorithm>

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
  return finish == FinishReason::kLength ? "length" : "cancelled";
}

double count(int64_t value) { return static_cast<double>(value); }

}  // namespace

Napi::Value toJs(Napi::Env env, const ModelFacts& facts) {
  auto object = Napi::Object::New(env);
  object["model"] = count(facts.model);
  object["dtype"] = dtypeName(facts.dtype);
  object["device"] = facts.device;
  object["parameterCount"] = count(facts.parameterCount);
  object["bytes"] = count(facts.bytes);
  object["vocabSize"] = count(facts.spec.vocabSize);
  object["hiddenSize"] = count(facts.spec.hiddenSize);
  object["intermediateSize"] = count(facts.spec.intermediateSize);
  object["numLayers"] = count(facts.spec.numLayers);
  object["numHeads"] = count(facts.spec.numHeads);
  object["numKvHeads"] = count(facts.spec.numKvHeads);
  object["headDim"] = count(facts.spec.headDim);
  object["maxPositions"] = count(facts.spec.maxPositions);
  object["tieWordEmbeddings"] = Napi::Boolean::New(env, facts.spec.tieWordEmbeddings);
  object["qkvBias"] = Napi::Boolean::New(env, facts.spec.qkvBias);
  object["qkNorm"] = Napi::Boolean::New(env, facts.spec.qkNorm);
  return object;
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
    auto entry = Napi::Object::New(env);
    entry["layer"] = count(matrix.layer);
    entry["module"] = kTargetNames[matrix.target];
    entry["rank"] = count(matrix.rank);
    entry["alpha"] = matrix.alpha;
    matrices[i] = entry;
  }
  auto object = Napi::Object::New(env);
  object["policy"] = count(facts.policy);
  object["kind"] = lora ? "lora" : "full";
  object["parameterCount"] = count(facts.parameterCount);
  object["rank"] = count(lora ? facts.options.rank : 0);
  object["alpha"] = lora ? facts.options.alpha : 0.0;
  object["rslora"] = Napi::Boolean::New(env, lora && facts.options.rankStabilized);
  object["targets"] = targets;
  object["matrices"] = matrices;
  return object;
}

Napi::Value toJs(Napi::Env env, const GeneratedSequence& sequence) {
  auto object = Napi::Object::New(env);
  object["request"] = count(sequence.request);
  object["sample"] = count(sequence.sample);
  object["ids"] = typedArray(env, sequence.ids);
  object["logprobs"] = typedArray(env, sequence.logprobs);
  object["entropies"] = typedArray(env, sequence.entropies);
  object["finish"] = finishName(sequence.finish);
  return object;
}

Napi::Value toJs(Napi::Env env, const GenerateProgress& progress) {
  auto object = Napi::Object::New(env);
  object["ended"] = count(progress.ended);
  object["total"] = count(progress.total);
  object["promptTokens"] = count(progress.promptTokens);
  object["inFlight"] = typedArray(env, progress.inFlight);
  return object;
}

Napi::Value toJs(Napi::Env env, const GenerateStats& stats) {
  auto object = Napi::Object::New(env);
  object["promptTokens"] = count(stats.promptTokens);
  object["keptTokens"] = count(stats.keptTokens);
  object["newTokens"] = count(stats.newTokens);
  object["decodeSteps"] = count(stats.decodeSteps);
  object["peakSlots"] = count(stats.peakSlots);
  object["prefillMs"] = stats.prefillMs;
  object["decodeMs"] = stats.decodeMs;
  object["fallback"] = stats.fallback;
  return object;
}

Napi::Object decoderEvent(Napi::Env env, const char* kind) {
  auto event = Napi::Object::New(env);
  event["kind"] = kind;
  return event;
}

Napi::Value toJs(Napi::Env env, const NewTokens& tokens) {
  auto event = decoderEvent(env, "tokens");
  event["request"] = count(tokens.request);
  event["sample"] = count(tokens.sample);
  event["ids"] = typedArray(env, tokens.ids);
  event["logprobs"] = typedArray(env, tokens.logprobs);
  return event;
}

Napi::Value refusedEvent(Napi::Env env, int64_t request, const Napi::Error& error) {
  auto event = decoderEvent(env, "refused");
  event["request"] = count(request);
  event["error"] = error.Value();
  return event;
}

Napi::Value toJs(Napi::Env env, const ScoreResult& result) {
  auto object = Napi::Object::New(env);
  object["logprobs"] = typedArray(env, result.logprobs);
  object["entropies"] = typedArray(env, result.entropies);
  return object;
}

Napi::Value toJs(Napi::Env env, const StepResult& result) {
  auto object = Napi::Object::New(env);
  object["gradNorm"] = result.gradNorm;
  object["applied"] = Napi::Boolean::New(env, result.applied);
  return object;
}

Napi::Value toJs(Napi::Env env, const std::vector<TensorFacts>& tensors) {
  auto table = Napi::Object::New(env);
  for (const TensorFacts& tensor : tensors) {
    auto shape = Napi::Array::New(env, tensor.shape.size());
    for (uint32_t i = 0; i < tensor.shape.size(); i++) shape[i] = count(tensor.shape[i]);
    auto entry = Napi::Object::New(env);
    entry["shape"] = shape;
    entry["data"] = typedArray(env, tensor.data);
    table[tensor.name] = entry;
  }
  return table;
}

Napi::Value toJs(Napi::Env env, const MemoryFacts& facts) {
  auto object = Napi::Object::New(env);
  object["engineBytes"] = count(facts.engineBytes);
  object["residentBytes"] = count(facts.process.residentBytes);
  object["peakResidentBytes"] = count(facts.process.peakResidentBytes);
  object["deviceFreeBytes"] = count(facts.device.freeBytes);
  object["deviceTotalBytes"] = count(facts.device.totalBytes);
  object["tensorBytes"] = env.Null();
  object["peakTensorBytes"] = env.Null();
  if (facts.tensors) {
    object["tensorBytes"] = count(facts.tensors->bytes);
    object["peakTensorBytes"] = count(facts.tensors->peakBytes);
  }
  return object;
}

Napi::Value toJs(Napi::Env env, const Ceilings& ceilings) {
  auto object = Napi::Object::New(env);
  object["readBytesPerSecond"] = ceilings.readBytesPerSecond;
  object["matmulFlopsPerSecond"] = ceilings.matmulFlopsPerSecond;
  return object;
}

Napi::Value toJs(Napi::Env env, const DeviceFacts& facts, int threads) {
  auto object = Napi::Object::New(env);
  object["device"] = facts.device;
  object["name"] = facts.name;
  object["threads"] = static_cast<double>(threads);
  object["totalBytes"] = count(facts.totalBytes);
  object["freeBytes"] = count(facts.freeBytes);
  return object;
}

}  // namespace acoer
