#include "checks.h"

#include <algorithm>
#include <cmath>

namespace acoer {
namespace {

// Far above any real length, far below where sizes in bytes overflow.
constexpr int64_t kMaxCount = int64_t{1} << 31;

void require(bool holds, ErrorCode code, const std::string& message) {
  if (!holds) fail(code, message);
}

void requireLength(size_t length, int64_t expected, const char* what, const char* unit) {
  require(static_cast<int64_t>(length) == expected, ErrorCode::kBadShape,
          std::string(what) + " has " + std::to_string(length) + " numbers for " +
              std::to_string(expected) + " " + unit);
}

void requireFinite(const std::vector<double>& values, const char* what) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  require(bad == values.end(), ErrorCode::kBadArgument,
          std::string(what) + "[" + std::to_string(bad - values.begin()) + "] is not finite");
}

}  // namespace

void checkSequences(const PackedSequences& sequences) {
  const auto& [ids, offsets, promptLengths] = sequences;
  require(!promptLengths.empty(), ErrorCode::kBadArgument, "there is no sequence in the batch");
  requireLength(offsets.size(), sequences.count() + 1, "offsets", "sequences and their end");
  require(offsets.front() == 0 && offsets.back() == static_cast<int64_t>(ids.size()),
          ErrorCode::kBadShape,
          "offsets must run from 0 to the number of ids, " + std::to_string(ids.size()));
  for (int64_t b = 0; b < sequences.count(); b++) {
    const int64_t length = offsets[b + 1] - offsets[b];
    const std::string which = "sequence " + std::to_string(b);
    require(length >= 1, ErrorCode::kBadShape, which + " is empty or its offsets run backwards");
    require(promptLengths[b] >= 1 && promptLengths[b] <= length, ErrorCode::kBadShape,
            which + " has " + std::to_string(length) + " tokens and promptLength " +
                std::to_string(promptLengths[b]) + "; it must be from 1 to the number of tokens");
  }
}

void checkVocabulary(const std::vector<int32_t>& ids, const ModelConfig& config, const char* what) {
  const auto bad = std::find_if(ids.begin(), ids.end(),
                                [&](int32_t id) { return id < 0 || id >= config.vocabSize; });
  require(bad == ids.end(), ErrorCode::kBadArgument,
          std::string(what) + "[" + std::to_string(bad - ids.begin()) + "] is token id " +
              std::to_string(bad == ids.end() ? 0 : *bad) + "; the model's vocabulary has " +
              std::to_string(config.vocabSize) + " tokens, from 0 on");
}

void checkTrainBatch(const TrainBatch& batch) {
  checkSequences(batch.sequences);
  const int64_t tokens = batch.sequences.completionTokens();
  requireLength(batch.advantages.size(), tokens, "advantages", "completion tokens");
  requireLength(batch.mask.size(), tokens, "mask", "completion tokens");
  requireFinite(batch.advantages, "advantages");
  const auto optional = [tokens](const std::vector<double>& values, const char* what) {
    if (values.empty()) return;
    requireLength(values.size(), tokens, what, "completion tokens");
    requireFinite(values, what);
  };
  optional(batch.oldLogprobs, "oldLogprobs");
  optional(batch.refLogprobs, "refLogprobs");
  optional(batch.importanceWeights, "importanceWeights");
}

void checkLoss(const LossSettings& loss, const TrainBatch& batch) {
  checkTemperature(loss.temperature);
  require(loss.normalizer > 0, ErrorCode::kBadArgument, "normalizer must be above 0");
  require(loss.beta >= 0, ErrorCode::kBadArgument, "beta must not be negative");
  require(loss.beta == 0 || !batch.refLogprobs.empty() || batch.mask.empty(),
          ErrorCode::kBadArgument, "beta is not 0, so refLogprobs must be given");
}

void checkTemperature(double temperature) {
  require(temperature > 0, ErrorCode::kBadArgument, "temperature must be above 0");
}

void checkStep(const StepOptions& options) {
  require(options.learningRate >= 0, ErrorCode::kBadArgument, "learningRate must not be negative");
  require(options.weightDecay >= 0, ErrorCode::kBadArgument, "weightDecay must not be negative");
  require(options.maxGradNorm >= 0, ErrorCode::kBadArgument,
          "maxGradNorm must not be negative; 0 is no clipping");
}

void checkRequest(const GenerateRequest& request, const ModelConfig& config) {
  require(!request.promptIds.empty(), ErrorCode::kBadArgument,
          "promptIds is empty: a prompt has at least one token");
  checkVocabulary(request.promptIds, config, "promptIds");
  require(request.maxNewTokens < kMaxCount, ErrorCode::kBadArgument,
          "maxNewTokens must be below 2^31");
  require(request.numSamples < kMaxCount && request.firstSample < kMaxCount,
          ErrorCode::kBadArgument, "numSamples and firstSample must be below 2^31");
  const SamplingOptions& sampling = request.sampling;
  require(sampling.temperature >= 0, ErrorCode::kBadArgument,
          "temperature must not be negative; 0 is greedy");
  require(sampling.topP > 0 && sampling.topP <= 1, ErrorCode::kBadArgument,
          "topP must be above 0 and at most 1");
  require(sampling.minP >= 0 && sampling.minP <= 1, ErrorCode::kBadArgument,
          "minP must be from 0 to 1");
  require(sampling.repetitionPenalty > 0, ErrorCode::kBadArgument,
          "repetitionPenalty must be above 0");
}

}  // namespace acoer
