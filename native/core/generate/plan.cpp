#include "generate/plan.h"

#include <algorithm>
#include <cmath>

#include "base/memory.h"
#include "generate/decode.h"
#include "ops/packed.h"

namespace acoer {
namespace {

// The share of the free memory that the KV cache may take if the caller sets no limit. A machine's
// memory is shared with other programs. A GPU's belongs to the run, but must also hold the logits
// and a layer's activations.
struct FreeShare {
  int64_t quarters;
  const char* text;
};
FreeShare freeShare(at::Device device) {
  return device.is_cpu() ? FreeShare{1, "a quarter"} : FreeShare{3, "three quarters"};
}

// Of a cache whose size is fixed, up to one part in so many is left to prompts that are computed
// together; at least the longest prompt.
constexpr int64_t kPromptShare = 32;

// Far above any real number of samples, far below where products with it would overflow.
constexpr int64_t kMaxSamples = int64_t{1} << 31;

int64_t cacheBytes(const Model& model, const GenerateOptions& options) {
  return options.kvBytes > 0 ? options.kvBytes
                             : availableBytes(model.device) / 4 * freeShare(model.device).quarters;
}

// How much memory is free is not the caller's mistake.
ErrorCode noRoom(const GenerateOptions& options) {
  return options.kvBytes > 0 ? ErrorCode::kBadArgument : ErrorCode::kOutOfMemory;
}

}  // namespace

void checkRequest(const Model& model, size_t i, const GenerateRequest& request) {
  const auto check = [i](bool holds, const char* name, const char* rule, double value) {
    if (!holds) require(false, nameOf(i) + name, rule, value);
  };
  const auto prompt = std::ssize(request.promptIds);
  if (prompt == 0) {
    fail(ErrorCode::kBadArgument, nameOf(i), "promptIds is empty; a prompt has at least one token");
  }
  checkVocabulary(request.promptIds, model.spec, nameOf(i) + "promptIds");
  checkVocabulary(request.stopIds, model.spec, nameOf(i) + "stopIds");
  check(request.numSamples >= 1 && request.numSamples < kMaxSamples, "numSamples",
        "at least 1 and below 2^31", request.numSamples);
  check(request.firstSample >= 0 && request.firstSample < kMaxSamples, "firstSample",
        "at least 0 and below 2^31", request.firstSample);
  check(request.firstToken >= 0 && request.firstToken < prompt, "firstToken",
        "at least 0 and below the number of promptIds, which those tokens end",
        static_cast<double>(request.firstToken));
  check(request.maxNewTokens >= 1, "maxNewTokens", "at least 1", request.maxNewTokens);
  if (request.maxNewTokens > model.spec.maxPositions - prompt) {
    fail(ErrorCode::kBadArgument, nameOf(i), "a prompt of ", prompt, " tokens and maxNewTokens ",
         request.maxNewTokens, " exceed the model's ", model.spec.maxPositions,
         " positions; shorten either");
  }
  const SamplingOptions& s = request.sampling;
  check(s.temperature >= 0 && std::isfinite(s.temperature), "temperature",
        "0 (greedy) or a positive number", s.temperature);
  check(s.topK >= 0, "topK", "0 (off) or positive", s.topK);
  check(s.topP > 0 && s.topP <= 1, "topP", "above 0 and at most 1", s.topP);
  check(s.minP >= 0 && s.minP <= 1, "minP", "from 0 to 1", s.minP);
  check(s.repetitionPenalty > 0 && std::isfinite(s.repetitionPenalty), "repetitionPenalty",
        "above 0 and finite", s.repetitionPenalty);
  if (request.policy != nullptr && request.policy->model.get() != &model) {
    fail(ErrorCode::kBadArgument, nameOf(i), "the policy belongs to another model");
  }
}

void checkGroups(const std::vector<GenerateRequest>& requests, const GenerateOptions& options) {
  const int64_t groups = std::ssize(options.completeGroups);
  if (groups == 0) return;
  for (size_t i = 0; i < requests.size(); ++i) {
    require(requests[i].group >= 0 && requests[i].group < groups, nameOf(i) + "group",
            c10::str("from 0 to the last of completeGroups, ", groups - 1), requests[i].group);
  }
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t wanted = options.completeGroups[static_cast<size_t>(group)];
    require(wanted <= group + 1, c10::str("generate: completeGroups[", group, "]"),
            c10::str("at most ", group + 1, ", the number of groups up to there"), wanted);
  }
}

std::string nameOf(size_t request) { return "generate: request " + std::to_string(request) + ": "; }

bool isTooCold(const GenerateRequest& request) {
  return request.sampling.temperature > 0 && request.sampling.temperature < 1e-6;
}

int64_t rowsOfStep(const Model& model, const GenerateOptions& options, int64_t sequences) {
  if (options.numSpeculativeTokens == 0) return sequences;
  const bool hostOnly = model.device.is_cpu() && model.kernels == nullptr;
  const int64_t worthIt = hostOnly ? kRowsWorthItOnCpu : kRowsWorthItOnGpu;
  return std::max(sequences, std::min(worthIt, sequences * (1 + options.numSpeculativeTokens)));
}

int64_t positionsNeeded(const GenerateRequest& request) {
  // The last new token is never fed back.
  return KvCache::roundedPositions(std::ssize(request.promptIds) + request.maxNewTokens - 1);
}

int64_t promptPositions(const GenerateRequest& request) {
  return KvCache::roundedPositions(std::ssize(request.promptIds) - 1);
}

DecoderNeeds needsOf(const std::vector<GenerateRequest>& requests) {
  DecoderNeeds needs;
  for (const GenerateRequest& request : requests) {
    needs.policies.push_back(request.policy);
    needs.sequences += request.numSamples;
    needs.longest = std::max(needs.longest, positionsNeeded(request));
    needs.longestPrompt = std::max(needs.longestPrompt, promptPositions(request));
    needs.stopIds = std::max(needs.stopIds, std::ssize(request.stopIds));
    needs.penalties = needs.penalties || request.sampling.repetitionPenalty != 1;
  }
  needs.policies = Decoder::orderPolicies(needs.policies);
  return needs;
}

DecoderNeeds needsOf(const OpenDecoder& open, const GenerateOptions& options) {
  const int64_t positions = KvCache::roundedPositions(open.positions);
  return {.policies = Decoder::orderPolicies(open.policies),
          .sequences = options.maxSlots,
          .longest = positions,
          .longestPrompt = positions,
          .stopIds = kMostStopIds,
          .penalties = true};
}

void checkOptions(const GenerateOptions& options) {
  require(options.maxSlots >= 1, "generate: maxSlots", "at least 1", options.maxSlots);
  require(
      options.numSpeculativeTokens >= 0 && options.numSpeculativeTokens <= kMostSpeculativeTokens,
      "generate: numSpeculativeTokens", c10::str("from 0 to ", kMostSpeculativeTokens),
      options.numSpeculativeTokens);
  require(options.kvBytes >= 0, "generate: kvBytes", "0 (a share of the free memory) or positive",
          options.kvBytes);
  require(options.progressEveryMs >= 0 && std::isfinite(options.progressEveryMs),
          "generate: progressEveryMs", "0 or positive", options.progressEveryMs);
}

void checkOpenDecoder(const Model& model, const OpenDecoder& open) {
  require(open.positions >= 1 && open.positions <= model.spec.maxPositions,
          "openDecoder: positions", c10::str("from 1 to the model's ", model.spec.maxPositions),
          open.positions);
  require(open.keepBytes >= 0, "openDecoder: keepBytes", "0 (nothing is kept) or positive",
          open.keepBytes);
  if (open.policies.empty()) {
    fail(ErrorCode::kBadArgument, "openDecoder: policies is empty; null stands for the base");
  }
  for (const Policy* policy : open.policies) {
    if (policy == nullptr || policy->model.get() == &model) continue;
    fail(ErrorCode::kBadArgument, "openDecoder: a policy belongs to another model");
  }
}

void checkFits(const Model& model, size_t number, const GenerateRequest& request,
               const KvBudget& budget, const GenerateOptions& options) {
  const int64_t positions = positionsNeeded(request);
  // What samples do not share of their prompt may begin and end within a page.
  const bool shares = budget.sharesPrompts && request.numSamples > 1;
  const int64_t pages = shares ? positions + budget.pagePositions - KvCache::roundedPositions(1)
                               : budget.pagesFor(positions) * budget.pagePositions;
  const int64_t needed = pages + promptPositions(request);
  if (needed <= budget.positions) return;
  const int64_t perPosition = budget.bytesPerPosition;
  fail(noRoom(options), nameOf(number), "its KV cache takes ", needed * perPosition, " bytes (",
       request.promptIds.size(), " prompt tokens, kept twice, and ", request.maxNewTokens,
       " new ones at ", perPosition, " bytes each) but ",
       (options.kvBytes > 0 ? "kvBytes"
                            : std::string(freeShare(model.device).text) + " of the free memory"),
       " is ", budget.bytes, "; lower maxNewTokens or raise kvBytes");
}

KvBudget planKvBudget(const Model& model, const DecoderNeeds& needs,
                      const std::vector<GenerateRequest>& requests, const GenerateOptions& options,
                      const GpuKernels* kernels) {
  const int64_t bytes = cacheBytes(model, options);
  const int64_t perPosition =
      KvCache::bytesPerPosition(model.spec, elementType(options.kvCacheDtype, model.dtype));
  KvBudget budget{
      .bytes = bytes,
      .bytesPerPosition = perPosition,
      .positions = bytes / perPosition,
      .maxSlots = options.maxSlots,
      .pagePositions = pagePositions(model, options.path, kernels, needs.longest),
      .sharesPrompts = usesCpuKernels(model, options.path, kernels),
  };
  for (size_t i = 0; i < requests.size(); ++i) checkFits(model, i, requests[i], budget, options);
  const bool grows = model.device.is_cpu() && model.kernels == nullptr;
  if (grows || needs.sequences == 0) return budget;
  const int64_t pagesOfOne = budget.pagesFor(needs.longest);
  const int64_t longest = pagesOfOne * budget.pagePositions;
  const int64_t held = std::max(
      needs.longestPrompt,
      std::min({kPrefillTokens, budget.positions / kPromptShare, budget.positions - longest}));
  const int64_t pages = (budget.positions - held) / budget.pagePositions;
  if (pages < pagesOfOne) {
    fail(noRoom(options),
         "generate: the longest sequence and the longest prompt of the requests take ",
         (longest + needs.longestPrompt) * perPosition,
         " bytes of KV cache together, and there is room for ", bytes,
         "; generate them in several calls, lower maxNewTokens or raise kvBytes");
  }
  budget.maxSlots = std::min({budget.maxSlots, needs.sequences, pages});
  budget.fixedPages = std::min(pages, budget.maxSlots * pagesOfOne);
  return budget;
}

}  // namespace acoer
