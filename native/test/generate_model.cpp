// generate() against the packed forward: both compute the same function of the same weights.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "generate_support.h"

namespace acoer::check {
namespace {

const Cancel kNoCancel;

std::vector<GenerateRequest> variedRequests(const ModelSpec& spec, const Policy* policy) {
  std::vector<GenerateRequest> requests;
  // 150 is longer than the prompts that are attended row by row.
  for (int64_t length : {1, 2, 17, 150}) {
    requests.push_back(
        makeRequest(randomIds(spec, length, static_cast<uint64_t>(length)), 3, 40, policy));
  }
  requests[1].sampling.temperature = 0.7;
  requests[2].sampling = {.temperature = 0.9, .topK = 20, .topP = 0.9, .repetitionPenalty = 1.2};
  requests[3].sampling.temperature = 0;
  return requests;
}

void checkAgainstScore(const Model& model, const Policy* policy, DecodePath path, double bound) {
  const auto requests = variedRequests(model.spec, policy);
  const ScoreGap gap = gapToScore(model, requests, collect(model, requests, {}, path));
  ACOER_CHECK_LE(gap.logprob, bound);
  ACOER_CHECK_LE(gap.entropy, bound);
}

ACOER_TEST(generate_logprob_equals_score) {
  for (const ModelSpec& spec : {tinySpec(), smallSpec(), qwen2Spec(), llama3Spec(), yarnSpec()}) {
    const auto model = randomModel(spec, at::kCPU, at::kFloat, 3);
    const auto adapter = strongAdapter(model, 5);
    const auto full = changedCopy(model, 6);
    for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
      checkAgainstScore(*model, nullptr, path, 1e-4);
      checkAgainstScore(*model, adapter.get(), path, 1e-4);
      checkAgainstScore(*model, full.get(), path, 1e-4);
    }
  }
}

ACOER_TEST(generate_logprob_equals_score_fp64) {
  for (ModelSpec spec : {smallSpec(), qwen2Spec(), llama3Spec(), yarnSpec()}) {
    spec.tieWordEmbeddings = false;
    spec.headDim = 20;  // no multiple of any vector
    const auto model = randomModel(spec, at::kCPU, at::kDouble, 3);
    const auto adapter = strongAdapter(model, 5);
    for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
      checkAgainstScore(*model, nullptr, path, 1e-10);
      checkAgainstScore(*model, adapter.get(), path, 1e-10);
    }
  }
}

// bf16 rounds after every operation, and the trainer's kernels use a different order: log-probs
// agree to that rounding and no better.
ACOER_TEST(generate_logprob_near_score_bf16) {
  for (const ModelSpec& spec : {smallSpec(), qwen2Spec()}) {
    const auto model = randomModel(spec, at::kCPU, at::kBFloat16, 3);
    const auto adapter = strongAdapter(model, 5);
    for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
      for (const Policy* policy :
           {static_cast<const Policy*>(nullptr), static_cast<const Policy*>(adapter.get())}) {
        const auto requests = variedRequests(model->spec, policy);
        const ScoreGap gap = gapToScore(*model, requests, collect(*model, requests, {}, path));
        ACOER_CHECK_LE(gap.meanLogprob, 0.02);
        ACOER_CHECK_LE(gap.logprob, 0.3);
      }
    }
  }
}

// Every greedy token is the argmax of the full forward over the tokens before it.
ACOER_TEST(generate_greedy_is_argmax_of_forward) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 8);
  const auto adapter = strongAdapter(model, 9);
  for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
    std::vector<GenerateRequest> requests{
        makeRequest(randomIds(model->spec, 12, 1), 1, 60, nullptr),
        makeRequest(randomIds(model->spec, 30, 2), 1, 60, adapter.get())};
    for (auto& request : requests) request.sampling.temperature = 0;
    const Generated generated = collect(*model, requests, {}, path);
    for (const auto& [key, sequence] : generated.sequences) {
      const GenerateRequest& request = requests[static_cast<size_t>(key.first)];
      PackedSequences packed;
      packed.ids = request.promptIds;
      packed.ids.insert(packed.ids.end(), sequence.ids.begin(), sequence.ids.end());
      packed.offsets = {0, static_cast<int64_t>(packed.ids.size())};
      packed.promptLengths = {static_cast<int64_t>(request.promptIds.size())};
      const c10::NoGradGuard noGrad;
      const at::Tensor hidden = hiddenStates(*model, request.policy, packed);
      const at::Tensor best = at::argmax(hidden.mm(model->weights.head_VD.plain().t()), 1);
      for (size_t t = 0; t < sequence.ids.size(); ++t) {
        const auto before = static_cast<int64_t>(request.promptIds.size() + t) - 1;
        ACOER_CHECK(best[before].item<int64_t>() == sequence.ids[t]);
      }
    }
  }
}

// With many samples, first tokens follow the model's distribution.
ACOER_TEST(generate_first_token_chi_square) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 10);
  const int64_t samples = 20000;
  std::vector<GenerateRequest> requests{makeRequest(randomIds(model->spec, 9, 3), samples, 1)};
  const Generated generated = collect(*model, requests);
  PackedSequences packed{requests[0].promptIds, {0, 9}, {9}};
  const c10::NoGradGuard noGrad;
  const at::Tensor hidden = hiddenStates(*model, nullptr, packed);
  const at::Tensor p =
      at::softmax(hidden[8].matmul(model->weights.head_VD.plain().t()).to(at::kDouble), 0);
  std::vector<double> counts(64, 0);
  for (const auto& [key, sequence] : generated.sequences) {
    counts[static_cast<size_t>(sequence.ids[0])] += 1;
  }
  double value = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const double expected = p[i].item<double>() * static_cast<double>(samples);
    const double difference = counts[static_cast<size_t>(i)] - expected;
    value += difference * difference / expected;
  }
  ACOER_CHECK(chiSquareTail(value, 63) > 1e-3);
}

}  // namespace
}  // namespace acoer::check
