// Decoding, training and a whole step at the sizes of the paper's run.
#include <c10/util/Exception.h>

#include "../device_models.h"
#include "base/error.h"
#include "base/memory.h"
#include "generate/generate.h"
#include "measure.h"
#include "train/adamw.h"
#include "train/forward.h"

namespace acoer::measure {
namespace {

const Cancel kNoCancel;

GenerateRequest group(const Subject& subject, int64_t promptTokens, int64_t rows, int64_t tokens) {
  GenerateRequest request;
  const int64_t vocab = subject.model->spec.vocabSize;
  for (int64_t t = 0; t < promptTokens; ++t) {
    request.promptIds.push_back(static_cast<int32_t>((t * 997 + 13) % vocab));
  }
  request.numSamples = rows;
  request.seed = 42;
  request.maxNewTokens = tokens;  // there are no stop ids: every sample has this length
  request.policy = subject.policy.get();
  return request;
}

GenerateStats run(const Subject& subject, const GenerateRequest& request,
                  std::vector<std::vector<int32_t>>* ids = nullptr) {
  GenerateOptions options;
  options.maxSlots = request.numSamples;
  if (ids) ids->resize(static_cast<size_t>(request.numSamples));
  return generate(
      *subject.model, {request}, options,
      [&](GeneratedSequence&& sequence) {
        if (ids) (*ids)[static_cast<size_t>(sequence.sample)] = std::move(sequence.ids);
      },
      kNoCancel);
}

PackedSequences pack(const std::vector<int32_t>& prompt,
                     const std::vector<std::vector<int32_t>>& completions, size_t begin,
                     size_t end) {
  PackedSequences packed;
  packed.offsets.push_back(0);
  for (size_t s = begin; s < end; ++s) {
    packed.ids.insert(packed.ids.end(), prompt.begin(), prompt.end());
    packed.ids.insert(packed.ids.end(), completions[s].begin(), completions[s].end());
    packed.offsets.push_back(static_cast<int64_t>(packed.ids.size()));
    packed.promptLengths.push_back(static_cast<int64_t>(prompt.size()));
  }
  return packed;
}

// Steps of the two runs that a decode step is timed by. In both the host looks at a multiple of
// eight steps, and each layout is met often enough to be recorded.
constexpr int64_t kLongSteps = 64, kShortSteps = 16;

// `steps` steps with `context` in their middle; the first token comes from the prefill.
GenerateStats stepsAround(const Subject& subject, int64_t rows, int64_t context, int64_t steps) {
  return run(subject, group(subject, context - steps / 2, rows, steps + 1));
}

void timeSteps(const Subject& subject, Decode& result) {
  const GenerateStats many = stepsAround(subject, result.rows, result.context, kLongSteps);
  if (many.peakSlots < result.rows) {
    result.skipped = "only " + std::to_string(many.peakSlots) + " sequences fit into memory";
    return;
  }
  const GenerateStats few = stepsAround(subject, result.rows, result.context, kShortSteps);
  result.steps = kLongSteps - kShortSteps;
  result.seconds = (many.decodeMs - few.decodeMs) / 1e3;
  if (result.seconds <= 0) result.skipped = "the machine was too busy: fewer steps took longer";
}

}  // namespace

Decode decode(const Subject& subject, int64_t rows, int64_t context) {
  Decode result{rows, context, 0, 0, ""};
  try {
    timeSteps(subject, result);
  } catch (const EngineError& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    result.skipped = "out of memory";
  } catch (const c10::Error&) {
    if (!handlingOutOfMemory()) throw;
    result.skipped = "out of memory";
  }
  releaseFreedMemory(subject.device);
  return result;
}

Training train(const Subject& subject) {
  Training result{subject.tiny ? 2 : 8, subject.tiny ? 8 : 150, subject.tiny ? 16 : 1024, 0};
  const auto count = static_cast<size_t>(result.sequences);
  const PackedSequences batch =
      check::randomSequences(subject.model->spec, std::vector<int64_t>(count, result.promptTokens),
                             std::vector<int64_t>(count, result.completionTokens), 7);
  const std::vector<double> slopes = check::randomSlopes(batch, 8);
  const Stopwatch watch(subject.device);
  check::addGradients(*subject.policy, batch, slopes);
  result.seconds = watch.seconds();
  zeroGradients(*subject.policy);
  return result;
}

Step step(const Subject& subject) {
  Step result;
  result.sequences = subject.tiny ? 4 : 16;
  result.promptTokens = subject.tiny ? 8 : 150;
  result.completionTokens = subject.tiny ? 16 : 1024;
  const auto request =
      group(subject, result.promptTokens, result.sequences, result.completionTokens);
  std::vector<std::vector<int32_t>> ids;
  const Stopwatch rollout(subject.device);
  run(subject, request, &ids);
  result.rolloutSeconds = rollout.seconds();
  const Stopwatch training(subject.device);
  for (const auto& [begin, end] :
       {std::pair{size_t{0}, ids.size() / 2}, {ids.size() / 2, ids.size()}}) {
    const PackedSequences packed = pack(request.promptIds, ids, begin, end);
    check::addGradients(*subject.policy, packed, check::randomSlopes(packed, begin + 1));
  }
  result.trainSeconds = training.seconds();
  StepOptions options;
  options.learningRate = 1e-9;  // leaves the next repeat the same work
  options.maxGradNorm = 1;
  const Stopwatch optimizer(subject.device);
  acoer::step(*subject.policy, options);
  result.optimizerSeconds = optimizer.seconds();
  return result;
}

}  // namespace acoer::measure
