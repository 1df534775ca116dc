// Gradients in fp64 against central differences, and what must not change them.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "check.h"
#include "device_models.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

std::shared_ptr<Model> doubleModel(bool tied, ModelSpec spec = smallSpec()) {
  spec.tieWordEmbeddings = tied;
  spec.numLayers = 2;
  return randomModel(spec, at::kCPU, at::kDouble, 3);
}

std::shared_ptr<Policy> fullPolicy(bool tied, const ModelSpec& spec = smallSpec()) {
  PolicyOptions options;
  options.kind = PolicyOptions::Kind::kFull;
  return createPolicy(doubleModel(tied, spec), options);
}

PackedSequences ragged() { return randomSequences(smallSpec(), {3, 9, 1, 20}, {6, 1, 40, 33}, 1); }

// A linear functional of the log-probs: sum_t slopes[t] * logprob[t].
struct Functional {
  PackedSequences sequences;
  std::vector<double> slopes;  // some of them zero
  std::optional<DropoutKey> dropout;
};

constexpr double kTemperature = 0.9;

Functional functional() {
  Functional f{ragged(), {}, std::nullopt};
  for (int64_t t = 0; t < f.sequences.completionTokens(); ++t) {
    f.slopes.push_back(t % 7 == 3 ? 0 : 0.1 * std::sin(3 * static_cast<double>(t) + 1));
  }
  return f;
}

double valueAt(const Functional& f, const ScoreResult& now) {
  double value = 0;
  for (size_t t = 0; t < f.slopes.size(); ++t) value += f.slopes[t] * now.logprobs[t];
  return value;
}

// Without dropout by score(), which keeps nothing.
double valueOf(Policy& policy, const Functional& f) {
  if (f.dropout) return valueAt(f, forward(policy, f.sequences, kTemperature, f.dropout, kNever));
  return valueAt(f, score(*policy.model, &policy, f.sequences, kTemperature, kNever));
}

// Adds the gradient and returns the value.
double differentiate(Policy& policy, const Functional& f, int64_t keepBytes = kKeepAll) {
  const ScoreResult now = forward(policy, f.sequences, kTemperature, f.dropout, kNever, keepBytes);
  backward(policy, f.slopes, kNever);
  return valueAt(f, now);
}

// Checks every parameter tensor along one random direction.
void checkDirections(Policy& policy, const Functional& f) {
  const at::NoGradGuard noGrad;
  zeroGradients(policy);
  differentiate(policy, f);
  const auto named = gradients(policy);
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < named.size(); ++i) {
    at::Tensor value = policy.parameters[i].value;
    const at::Tensor direction = at::randn_like(value);
    const at::Tensor before = value.clone();
    value.add_(direction, kStep);
    const double up = valueOf(policy, f);
    value.copy_(before).sub_(direction, kStep);
    const double down = valueOf(policy, f);
    value.copy_(before);
    const double want = (up - down) / (2 * kStep);
    const double got = (named[i].second * direction).sum().item<double>();
    // Rounding of the value, divided by 2e-6, leaves about 1e-9.
    ACOER_CHECK_LE(std::abs(got - want), 1e-7 + 1e-5 * std::abs(want));
    ACOER_CHECK(got != 0);
  }
}

ACOER_TEST(train_lora_gradients_match_differences) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  checkDirections(*policy, functional());
}

ACOER_TEST(train_lora_gradients_match_differences_under_dropout) {
  const auto policy = randomAdapter(doubleModel(false), 5);
  policy->options.dropout = 0.3;
  Functional f = functional();
  f.dropout = DropoutKey{77};
  const double with = valueOf(*policy, f);
  f.dropout = DropoutKey{78};
  ACOER_CHECK(with != valueOf(*policy, f));
  checkDirections(*policy, f);
}

ACOER_TEST(train_full_gradients_match_differences) {
  for (const bool tied : {true, false}) {
    const auto policy = fullPolicy(tied);
    checkDirections(*policy, functional());
  }
}

ACOER_TEST(train_gradients_of_every_family_match_differences) {
  for (const ModelSpec& spec : {qwen2Spec(), llama3Spec(), yarnSpec()}) {
    checkDirections(*randomAdapter(doubleModel(true, spec), 5), functional());
    checkDirections(*fullPolicy(true, spec), functional());
  }
}

ACOER_TEST(train_recomputation_gives_the_same_gradients) {
  const auto lora = randomAdapter(doubleModel(true), 5);
  lora->options.dropout = 0.2;
  Functional f = functional();
  f.dropout = DropoutKey{9};
  for (const auto& policy : {lora, fullPolicy(true)}) {
    const double value = differentiate(*policy, f);
    const auto kept = gradients(*policy);
    zeroGradients(*policy);
    ACOER_CHECK(differentiate(*policy, f, 0) == value);
    ACOER_CHECK_LE(largestGap(gradients(*policy), kept), 0);
  }
}

// The sequences [from, to) of a batch.
Functional part(const Functional& whole, size_t from, size_t to) {
  const PackedSequences own = whole.sequences.slice(from, to);
  const auto first = whole.slopes.begin() + whole.sequences.slice(0, from).completionTokens();
  return {own, {first, first + own.completionTokens()}, whole.dropout};
}

ACOER_TEST(train_micro_batches_do_not_change_the_step) {
  const auto lora = randomAdapter(doubleModel(true), 5);
  lora->options.dropout = 0.2;
  Functional f = functional();
  f.dropout = DropoutKey{9};
  for (const auto& policy : {lora, fullPolicy(false)}) {
    const double whole = differentiate(*policy, f);
    const auto want = gradients(*policy);
    zeroGradients(*policy);
    double sum = 0;
    for (const auto& [from, to] : {std::pair(2, 4), std::pair(0, 1), std::pair(1, 2)}) {
      sum += differentiate(*policy, part(f, size_t(from), size_t(to)));
    }
    ACOER_CHECK_LE(std::abs(sum - whole), 1e-12);
    ACOER_CHECK_LE(largestGap(gradients(*policy), want), 1e-12);
  }
}

// Sets the number of threads for as long as it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

double largestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  ACOER_CHECK(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// The completions of a prompt have its rows in common, but for dropout's masks: less is kept, and
// the step is that of one sequence at a time.
ACOER_TEST(train_shared_prompts_do_not_change_the_step) {
  const Threads threads(1);  // one part
  const PackedSequences sequences =
      randomSequences(smallSpec(), {40, 40, 40, 40, 1, 1, 40, 7}, {30, 0, 45, 1, 12, 40, 9, 20}, 3);
  Functional different{sequences, {}, std::nullopt};
  for (int64_t t = 0; t < sequences.completionTokens(); ++t) {
    different.slopes.push_back(0.1 * std::sin(3 * static_cast<double>(t) + 1));
  }
  Functional shared = different;
  auto& ids = shared.sequences.ids;
  for (const size_t b : {1U, 2U, 3U}) {
    std::copy_n(ids.begin(), 40, ids.begin() + sequences.offsets[b]);
  }
  const auto dropping = randomAdapter(doubleModel(true), 5);
  dropping->options.dropout = 0.2;
  for (const auto& policy : {randomAdapter(doubleModel(true), 5), fullPolicy(false), dropping}) {
    if (policy == dropping) shared.dropout = DropoutKey{9};
    const auto bytesKept = [&](const Functional& f) {
      forward(*policy, f.sequences, kTemperature, f.dropout, kNever, kKeepAll);
      return static_cast<double>(tapeBytes(*policy));
    };
    if (policy != dropping) ACOER_CHECK_LE(bytesKept(shared), 0.8 * bytesKept(different));
    const double whole = differentiate(*policy, shared);
    const auto want = gradients(*policy);
    zeroGradients(*policy);
    double sum = 0;
    for (size_t b = 0; b < sequences.promptLengths.size(); ++b) {
      sum += differentiate(*policy, part(shared, b, b + 1));
    }
    ACOER_CHECK_LE(std::abs(sum - whole), 1e-12);
    ACOER_CHECK_LE(largestGap(gradients(*policy), want), 1e-12);
  }
}

// Small models are passed over in parts, one for each thread.
ACOER_TEST(train_threads_do_not_change_the_step) {
  const auto lora = randomAdapter(doubleModel(true), 5);
  lora->options.dropout = 0.2;
  std::vector<int64_t> prompts, completions;
  for (int64_t b = 0; b < 9; ++b) {
    prompts.push_back(1 + b % 4);
    completions.push_back(b == 4 ? 0 : 30 + 17 * (b % 5));
  }
  Functional f{randomSequences(smallSpec(), prompts, completions, 3), {}, DropoutKey{9}};
  for (int64_t t = 0; t < f.sequences.completionTokens(); ++t) {
    f.slopes.push_back(0.1 * std::sin(3 * static_cast<double>(t) + 1));
  }
  for (const auto& policy : {lora, fullPolicy(false)}) {
    std::vector<std::pair<std::string, at::Tensor>> want;
    ScoreResult scored, forwarded;
    double value = 0;
    for (const int count : {1, 2, 3, 8}) {
      const Threads threads(count);
      const auto& s = f.sequences;
      const ScoreResult now = score(*policy->model, policy.get(), s, kTemperature, kNever);
      const ScoreResult kept = forward(*policy, s, kTemperature, f.dropout, kNever);
      backward(*policy, f.slopes, kNever);
      const auto got = gradients(*policy);
      const double sum = valueAt(f, kept);
      zeroGradients(*policy);
      if (count == 1) {
        std::tie(scored, forwarded, want, value) = std::tie(now, kept, got, sum);
        continue;
      }
      ACOER_CHECK_LE(largestDifference(now.logprobs, scored.logprobs), 1e-12);
      ACOER_CHECK_LE(largestDifference(now.entropies, scored.entropies), 1e-12);
      ACOER_CHECK_LE(largestDifference(kept.logprobs, forwarded.logprobs), 1e-12);
      ACOER_CHECK_LE(std::abs(sum - value), 1e-12);
      ACOER_CHECK_LE(largestGap(got, want), 1e-12);
    }
  }
}

ACOER_TEST(train_step_refuses_gradients_that_are_not_finite) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  differentiate(*policy, functional());
  gradientIn(policy->gradientSums.flat, policy->parameters[4]).fill_(INFINITY);
  const at::Tensor before = policy->parameters[0].value.clone();
  const StepResult result = step(*policy, {.learningRate = 1, .weightDecay = 0, .maxGradNorm = 1});
  ACOER_CHECK(!result.applied && policy->stepCount == 0);
  ACOER_CHECK(at::equal(before, policy->parameters[0].value));
  ACOER_CHECK(!policy->gradientSums.flat.defined());
}

ACOER_TEST(train_batches_without_completions_do_nothing) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  for (const PackedSequences& batch :
       {PackedSequences{{1, 2, 3}, {0, 3}, {3}}, PackedSequences{{1, 2, 3}, {0, 2, 3}, {2, 1}}}) {
    ACOER_CHECK(score(*policy->model, nullptr, batch, 1, kNever).logprobs.empty());
    const ScoreResult result = forward(*policy, batch, 1, std::nullopt, kNever);
    ACOER_CHECK(result.logprobs.empty() && result.entropies.empty());
    backward(*policy, {}, kNever);
    ACOER_CHECK(!policy->gradientSums.flat.defined());
  }
}

// The only check of sequences: it stands between the caller's arrays and every kernel.
ACOER_TEST(train_bad_sequences_are_named) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  const auto refuse = [&](const PackedSequences& batch, ErrorCode code, const std::string& part) {
    ACOER_CHECK_THROWS(score(*policy->model, nullptr, batch, 1, kNever), code, part);
    ACOER_CHECK_THROWS(forward(*policy, batch, 1, std::nullopt, kNever), code, part);
  };
  refuse({{}, {0}, {}}, ErrorCode::kBadArgument, "the batch has no sequence");
  refuse({{1, 2}, {0}, {1}}, ErrorCode::kBadShape, "offsets has 1 numbers; 1 sequences need 2");
  refuse({{1, 2}, {0, 1}, {1}}, ErrorCode::kBadShape, "offsets must run from 0");
  refuse({{1, 2}, {1, 2}, {1}}, ErrorCode::kBadShape, "offsets must run from 0");
  refuse({{1, 2}, {0, 2}, {0}}, ErrorCode::kBadShape, "sequence 0 has 2 tokens and promptLength 0");
  refuse({{1, 2}, {0, 2}, {3}}, ErrorCode::kBadShape, "promptLength 3");
  refuse({{1, 2, 3}, {0, 3, 2, 3}, {1, 1, 1}}, ErrorCode::kBadShape, "sequence 1 is empty or");
  refuse({{1, 2, 3}, {0, 3, 3}, {3, 0}}, ErrorCode::kBadShape, "sequence 1 is empty or");
  refuse({{1, 99999}, {0, 2}, {1}}, ErrorCode::kBadArgument, "ids[1] is token id 99999");
  refuse({{-1, 2}, {0, 2}, {1}}, ErrorCode::kBadArgument, "ids[0] is token id -1");
  const auto length = static_cast<size_t>(policy->model->spec.maxPositions + 1);
  refuse({std::vector<int32_t>(length, 1), {0, int64_t(length)}, {1}}, ErrorCode::kBadArgument,
         "the model takes");
  for (const double temperature : {0.0, -1.0, double{INFINITY}, double{NAN}}) {
    ACOER_CHECK_THROWS(forward(*policy, ragged(), temperature, std::nullopt, kNever),
                       ErrorCode::kBadArgument, "temperature must be above 0");
  }
}

}  // namespace
}  // namespace acoer::check
