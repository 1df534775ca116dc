#include "generate_plan.h"

#include <cmath>

#include "memory.h"

namespace acoer {
namespace {

// What the KV cache may take of the memory that is free when the caller sets no limit. Other
// programs share a machine's memory. A GPU's is the run's own: what is left over holds the logits
// and a layer.
struct FreeShare {
  int64_t quarters;
  const char* text;
};
FreeShare freeShare(at::Device device) {
  return device.is_cpu() ? FreeShare{1, "a quarter"} : FreeShare{3, "three quarters"};
}

[[noreturn]] void refuse(size_t request, const std::string& message,
                         ErrorCode code = ErrorCode::kBadArgument) {
  fail(code, "generate: request " + std::to_string(request) + ": " + message);
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

void checkIds(size_t i, const char* what, const std::vector<int32_t>& ids, int64_t vocab) {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] >= 0 && ids[t] < vocab) continue;
    refuse(i, std::string(what) + " " + std::to_string(t) + " is " + std::to_string(ids[t]) +
                  ", outside the vocabulary of " + std::to_string(vocab));
  }
}

void checkSampling(size_t i, const SamplingOptions& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    refuse(i, "temperature is " + number(s.temperature) + "; it must be 0 (greedy) or positive");
  }
  if (s.topK < 0) {
    refuse(i, "topK is " + std::to_string(s.topK) + "; it must be 0 (off) or positive");
  }
  if (!(s.topP > 0 && s.topP <= 1)) {
    refuse(i, "topP is " + number(s.topP) + "; it must be in (0, 1]");
  }
  if (!(s.minP >= 0 && s.minP <= 1)) {
    refuse(i, "minP is " + number(s.minP) + "; it must be in [0, 1]");
  }
  if (!(s.repetitionPenalty > 0) || !std::isfinite(s.repetitionPenalty)) {
    refuse(i, "repetitionPenalty is " + number(s.repetitionPenalty) +
                  "; it must be positive, 1 for none");
  }
}

void checkRequest(const Model& model, size_t i, const GenerateRequest& request) {
  const ModelSpec& spec = model.spec;
  const auto prompt = static_cast<int64_t>(request.promptIds.size());
  if (prompt == 0) refuse(i, "the prompt is empty; it needs at least one token");
  checkIds(i, "prompt id", request.promptIds, spec.vocabSize);
  checkIds(i, "stop id", request.stopIds, spec.vocabSize);
  if (request.numSamples < 1) {
    refuse(i, "numSamples is " + std::to_string(request.numSamples) + "; it must be at least 1");
  }
  if (request.firstSample < 0) {
    refuse(i,
           "firstSample is " + std::to_string(request.firstSample) + "; it must not be negative");
  }
  if (request.maxNewTokens < 1) {
    refuse(i,
           "maxNewTokens is " + std::to_string(request.maxNewTokens) + "; it must be at least 1");
  }
  if (request.maxNewTokens > spec.maxPositions - prompt) {
    refuse(i, "a prompt of " + std::to_string(prompt) + " tokens and " +
                  std::to_string(request.maxNewTokens) + " new ones exceed the model's " +
                  std::to_string(spec.maxPositions) + " positions; shorten either");
  }
  checkSampling(i, request.sampling);
  if (request.policy != nullptr && request.policy->model.get() != &model) {
    refuse(i, "its policy belongs to another model");
  }
}

}  // namespace

int64_t positionsNeeded(const GenerateRequest& request) {
  // The last new token is never fed back.
  return KvCache::roundedPositions(static_cast<int64_t>(request.promptIds.size()) +
                                   request.maxNewTokens - 1);
}

int64_t promptPositions(const GenerateRequest& request) {
  return KvCache::roundedPositions(static_cast<int64_t>(request.promptIds.size()) - 1);
}

void checkRequests(const Model& model, const std::vector<GenerateRequest>& requests,
                   const GenerateOptions& options) {
  if (options.maxSlots < 1) {
    fail(ErrorCode::kBadArgument,
         "generate: maxSlots is " + std::to_string(options.maxSlots) + "; it must be at least 1");
  }
  if (options.kvBytes < 0) {
    fail(ErrorCode::kBadArgument, "generate: kvBytes is " + std::to_string(options.kvBytes) +
                                      "; it must be 0 (a share of the free memory) or positive");
  }
  for (size_t i = 0; i < requests.size(); ++i) checkRequest(model, i, requests[i]);
}

KvBudget planKvBudget(const Model& model, const std::vector<GenerateRequest>& requests,
                      const GenerateOptions& options) {
  const FreeShare share = freeShare(model.device);
  const int64_t bytes =
      options.kvBytes > 0 ? options.kvBytes : availableBytes(model.device) / 4 * share.quarters;
  const int64_t perPosition = KvCache::bytesPerPosition(model.spec, model.dtype);
  const KvBudget budget{bytes / perPosition, options.maxSlots};
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t needed = positionsNeeded(requests[i]) + promptPositions(requests[i]);
    if (needed <= budget.positions) continue;
    refuse(i,
           "its KV cache takes " + std::to_string(needed * perPosition) + " bytes (" +
               std::to_string(requests[i].promptIds.size()) + " prompt tokens, kept twice, and " +
               std::to_string(requests[i].maxNewTokens) + " new ones at " +
               std::to_string(perPosition) + " bytes each) but " +
               (options.kvBytes > 0 ? "kvBytes" : std::string(share.text) + " of the free memory") +
               " is " + std::to_string(bytes) + "; lower maxNewTokens or raise kvBytes",
           // Free memory is nothing the caller has said.
           options.kvBytes > 0 ? ErrorCode::kBadArgument : ErrorCode::kOutOfMemory);
  }
  return budget;
}

}  // namespace acoer
