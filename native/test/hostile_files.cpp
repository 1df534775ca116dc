// Malicious tables are rejected before memory is taken for what they claim.
#include <ATen/ATen.h>
#include <sys/resource.h>

#include "check.h"
#include "device_models.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

int64_t peakBytes() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// `body` is rejected with `part` and takes less than 256 MB more than this process ever did.
void checkRefused(const std::function<void()>& body, ErrorCode code, const std::string& part) {
  const int64_t before = peakBytes();
  ACOER_CHECK_THROWS(body(), code, part);
  ACOER_CHECK_LE(static_cast<double>(peakBytes() - before), 256e6);
}

ACOER_TEST(hostile_spec_is_checked_against_the_weights) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  const TensorFile file(namedWeights(model->spec, model->weights));
  const auto refuse = [&](int64_t ModelSpec::* size, int64_t value, ErrorCode code,
                          const std::string& part) {
    ModelSpec spec = model->spec;
    spec.*size = value;
    checkRefused([&] { loadModel({.spec = spec, .weights = file.table}, kNever); }, code, part);
  };
  const int64_t most = int64_t{1} << 31;
  refuse(&ModelSpec::vocabSize, 2'000'000'000, ErrorCode::kBadShape, "expected [2000000000, ");
  refuse(&ModelSpec::numLayers, most, ErrorCode::kBadFile, "but there are only");
  refuse(&ModelSpec::numLayers, 20, ErrorCode::kBadFile, "lacks the tensor model.layers.");
  for (const auto size : {&ModelSpec::hiddenSize, &ModelSpec::headDim, &ModelSpec::numHeads,
                          &ModelSpec::intermediateSize, &ModelSpec::vocabSize}) {
    for (const int64_t value : {most + 1, most, INT64_MAX, INT64_MIN, int64_t{0}}) {
      if (size == &ModelSpec::vocabSize && value == most) continue;  // just a large embedding
      if (size == &ModelSpec::intermediateSize && value == most) continue;
      refuse(size, value, ErrorCode::kBadArgument, "inconsistent or out of range");
    }
  }
  refuse(&ModelSpec::numKvHeads, 4, ErrorCode::kBadArgument, "inconsistent or out of range");
}

ACOER_TEST(hostile_adapter_options_are_checked_against_the_tensors) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  const TensorFile file({{"a", at::zeros({3})}});
  PolicyOptions options;
  options.rank = 4096;
  options.targets.fill(true);
  checkRefused([&] { loadAdapter(model, options, file.table); }, ErrorCode::kBadFile,
               "lacks the tensor base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
}

}  // namespace
}  // namespace acoer::check
