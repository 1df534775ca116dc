#include "checks.h"

#include <algorithm>

#include "packed.h"

namespace acoer {
namespace {

// Far above any real length, far below where sizes in bytes overflow.
constexpr int64_t kMaxCount = int64_t{1} << 31;

void require(bool holds, ErrorCode code, const std::string& message) {
  if (!holds) fail(code, message);
}

}  // namespace

void checkStep(const StepOptions& options) {
  require(options.learningRate >= 0, ErrorCode::kBadArgument, "learningRate must not be negative");
  require(options.weightDecay >= 0, ErrorCode::kBadArgument, "weightDecay must not be negative");
  require(options.maxGradNorm >= 0, ErrorCode::kBadArgument,
          "maxGradNorm must not be negative; 0 is no clipping");
}

void checkRequest(const GenerateRequest& request, const ModelSpec& spec) {
  require(!request.promptIds.empty(), ErrorCode::kBadArgument,
          "promptIds is empty: a prompt has at least one token");
  checkVocabulary(request.promptIds, spec, "promptIds");
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
