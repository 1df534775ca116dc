// Converts plain results to JavaScript values, field for field as src/engine/binding.ts declares
// them.
#pragma once

#include "base/ceilings.h"
#include "base/device.h"
#include "base/host.h"
#include "base/memory.h"
#include "generate/generate.h"
#include "model/exported.h"
#include "runner.h"
#include "selfcheck/selfcheck.h"
#include "train/adamw.h"
#include "train/forward.h"

namespace acoer {

// A copy of a policy's facts: the policy itself may be gone by the time they reach the JavaScript
// thread.
struct PolicyFacts {
  int64_t policy = 0;
  PolicyOptions options;
  std::vector<LoraMatrix> matrices;  // all that is adapted
  int64_t parameterCount = 0;
  std::vector<int64_t> shardOffsets;
};

struct ModelFacts {
  int64_t model = 0;
  ModelSpec spec;
  at::ScalarType dtype = at::kFloat;
  Quantization quantization = Quantization::kNone;
  std::string device;
  int64_t parameterCount = 0;
  int64_t bytes = 0;
};

struct TensorFacts {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> data;
};

struct MemoryFacts {
  int64_t engineBytes = 0;
  ProcessMemory process;
  DeviceFacts device;
  std::optional<MemoryUse> tensors;
};

// The CUDA kernels in use and the card they run on; without a file there are none.
struct KernelFacts {
  std::string file, card, cardId, driver;
};

Napi::Value toJs(Napi::Env env, const KernelFacts& facts);
Napi::Value toJs(Napi::Env env, const std::vector<KernelFigure>& figures);
Napi::Value toJs(Napi::Env env, const ModelFacts& facts);
Napi::Value toJs(Napi::Env env, const PolicyFacts& facts);
Napi::Value toJs(Napi::Env env, const GeneratedSequence& sequence);
Napi::Value toJs(Napi::Env env, const GenerateProgress& progress);
Napi::Value toJs(Napi::Env env, const GenerateStats& stats);
// Events of an open decoder: an object with its `kind`, and those of each kind.
Napi::Object decoderEvent(Napi::Env env, const char* kind);
Napi::Value toJs(Napi::Env env, const NewTokens& tokens);
Napi::Value refusedEvent(Napi::Env env, int64_t request, const Napi::Error& error);
Napi::Value toJs(Napi::Env env, const ScoreResult& result);
Napi::Value toJs(Napi::Env env, const StepResult& result);
Napi::Value toJs(Napi::Env env, const std::vector<TensorFacts>& tensors);
Napi::Value toJs(Napi::Env env, const std::vector<MergedMatrix>& merged);
Napi::Value toJs(Napi::Env env, const MemoryFacts& facts);
Napi::Value toJs(Napi::Env env, const Ceilings& ceilings);
Napi::Value toJs(Napi::Env env, const DeviceFacts& facts, int threads);

// What converts `value`, or gives undefined, on the JavaScript thread.
template <class T>
Pack packed(T value) {
  return [value = std::move(value)](Napi::Env env) { return toJs(env, value); };
}
inline Pack nothing() {
  return [](Napi::Env env) { return env.Undefined(); };
}

// A typed array over the memory of a flat fp32 or fp64 tensor on the host.
Pack sharedNumbers(const at::Tensor& flat);

}  // namespace acoer
