// Gradients in fp64 against central differences, and what must not change them.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "check.h"
#include "device_models.h"
#include "loss.h"

namespace acoer::check {
namespace {

const Cancel kNever;

std::shared_ptr<Model> doubleModel(bool tied) {
  ModelConfig config = smallConfig();
  config.tieWordEmbeddings = tied;
  config.numLayers = 2;
  return randomModel(config, at::kCPU, at::kDouble, 3);
}

std::shared_ptr<Policy> fullPolicy(bool tied) {
  PolicyOptions options;
  options.kind = PolicyOptions::Kind::kFull;
  return createPolicy(doubleModel(tied), options);
}

PackedSequences ragged() {
  return randomSequences(smallConfig(), {3, 9, 1, 20}, {6, 1, 40, 33}, 1);
}

// Off-policy and with a reference, so that every term has a derivative.
TrainBatch fullBatch(const Policy& policy) {
  TrainBatch batch = trainBatch(ragged(), 2);
  const ScoreResult now = score(*policy.model, &policy, batch.sequences, 0.9, kNever);
  for (size_t t = 0; t < now.logprobs.size(); ++t) {
    const auto i = static_cast<double>(t);
    batch.oldLogprobs.push_back(now.logprobs[t] + 0.3 * std::sin(3 * i));
    batch.refLogprobs.push_back(now.logprobs[t] + 0.4 * std::cos(2 * i));
    batch.importanceWeights.push_back(1 + 0.5 * std::sin(i));
    batch.mask[t] = t % 7 != 3;
  }
  return batch;
}

LossSettings settings(LossType type = LossType::kDapo) {
  LossSettings loss;
  loss.type = type;
  loss.beta = 0.1;
  loss.temperature = 0.9;
  loss.normalizer = 10;
  return loss;
}

// Without dropout through score(), which needs no backward.
double lossOf(Policy& policy, const TrainBatch& batch, const LossSettings& loss) {
  if (!batch.dropout) {
    const ScoreResult now =
        score(*policy.model, &policy, batch.sequences, loss.temperature, kNever);
    return computeLoss(batch, loss, now.logprobs).loss;
  }
  const double value = accumulate(policy, batch, loss, kNever).loss;
  zeroGradients(policy);
  return value;
}

// Every parameter tensor along one random direction.
void checkDirections(Policy& policy, const TrainBatch& batch, const LossSettings& loss) {
  const at::NoGradGuard noGrad;
  zeroGradients(policy);
  accumulate(policy, batch, loss, kNever);
  const auto named = gradients(policy);
  constexpr double kStep = 1e-6;
  for (size_t i = 0; i < named.size(); ++i) {
    at::Tensor value = policy.parameters[i].value;
    const at::Tensor direction = at::randn_like(value);
    const at::Tensor before = value.clone();
    value.add_(direction, kStep);
    const double up = lossOf(policy, batch, loss);
    value.copy_(before).sub_(direction, kStep);
    const double down = lossOf(policy, batch, loss);
    value.copy_(before);
    const double want = (up - down) / (2 * kStep);
    const double got = (named[i].second * direction).sum().item<double>();
    // Rounding of the loss over 2e-6 leaves about 1e-9.
    ACOER_CHECK_LE(std::abs(got - want), 1e-7 + 1e-5 * std::abs(want));
    ACOER_CHECK(got != 0);
  }
}

ACOER_TEST(train_lora_gradients_match_differences) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  checkDirections(*policy, fullBatch(*policy), settings());
}

ACOER_TEST(train_lora_gradients_match_differences_under_dropout) {
  const auto policy = randomAdapter(doubleModel(false), 5);
  policy->options.dropout = 0.3;
  TrainBatch batch = fullBatch(*policy);
  batch.dropout = DropoutKey{77};
  const double with = lossOf(*policy, batch, settings());
  batch.dropout = DropoutKey{78};
  ACOER_CHECK(with != lossOf(*policy, batch, settings()));
  checkDirections(*policy, batch, settings());
}

ACOER_TEST(train_full_gradients_match_differences) {
  for (const bool tied : {true, false}) {
    const auto policy = fullPolicy(tied);
    checkDirections(*policy, fullBatch(*policy), settings());
  }
}

double largestGap(const Policy& policy,
                  const std::vector<std::pair<std::string, at::Tensor>>& want) {
  const auto got = gradients(policy);
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, (got[i].second - want[i].second).abs().max().item<double>());
  }
  return worst;
}

ACOER_TEST(train_recomputation_gives_the_same_gradients) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  policy->options.dropout = 0.2;
  TrainBatch batch = fullBatch(*policy);
  batch.dropout = DropoutKey{9};
  accumulate(*policy, batch, settings(), kNever);
  const auto kept = gradients(*policy);
  zeroGradients(*policy);
  accumulate(*policy, batch, settings(), kNever, 0);
  ACOER_CHECK_LE(largestGap(*policy, kept), 0);
}

// The sequences [from, to) of a batch.
TrainBatch part(const TrainBatch& whole, size_t from, size_t to) {
  TrainBatch out;
  out.dropout = whole.dropout;
  const auto& s = whole.sequences;
  size_t token = 0;
  out.sequences.offsets.push_back(0);
  for (size_t b = 0; b < to; ++b) {
    const int64_t begin = s.offsets[b], end = s.offsets[b + 1];
    const auto tokens = static_cast<size_t>(end - begin - s.promptLengths[b]);
    if (b >= from) {
      out.sequences.ids.insert(out.sequences.ids.end(), s.ids.begin() + begin, s.ids.begin() + end);
      out.sequences.offsets.push_back(static_cast<int64_t>(out.sequences.ids.size()));
      out.sequences.promptLengths.push_back(s.promptLengths[b]);
      for (size_t t = token; t < token + tokens; ++t) {
        out.advantages.push_back(whole.advantages[t]);
        out.mask.push_back(whole.mask[t]);
        out.oldLogprobs.push_back(whole.oldLogprobs[t]);
        out.refLogprobs.push_back(whole.refLogprobs[t]);
        out.importanceWeights.push_back(whole.importanceWeights[t]);
      }
    }
    token += tokens;
  }
  return out;
}

ACOER_TEST(train_micro_batches_do_not_change_the_step) {
  for (const LossType type : {LossType::kGrpo, LossType::kDapo, LossType::kVespo}) {
    for (const ImportanceLevel level : {ImportanceLevel::kToken, ImportanceLevel::kSequence}) {
      const auto policy = randomAdapter(doubleModel(true), 5);
      policy->options.dropout = 0.2;
      TrainBatch batch = fullBatch(*policy);
      batch.dropout = DropoutKey{9};
      LossSettings loss = settings(type);
      loss.level = level;
      const double whole = accumulate(*policy, batch, loss, kNever).loss;
      const auto want = gradients(*policy);
      zeroGradients(*policy);
      double sum = 0;
      for (const auto& [from, to] : {std::pair(2, 4), std::pair(0, 1), std::pair(1, 2)}) {
        sum += accumulate(*policy, part(batch, size_t(from), size_t(to)), loss, kNever).loss;
      }
      ACOER_CHECK_LE(std::abs(sum - whole), 1e-12);
      ACOER_CHECK_LE(largestGap(*policy, want), 1e-12);
    }
  }
}

ACOER_TEST(train_failed_accumulate_leaves_gradients) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  TrainBatch batch = fullBatch(*policy);
  accumulate(*policy, batch, settings(), kNever);
  const auto before = gradients(*policy);
  Cancel cancelled;
  cancelled.request();
  ACOER_CHECK_THROWS(accumulate(*policy, batch, settings(), cancelled), ErrorCode::kCancelled, "");
  batch.refLogprobs[3] = 1e6;
  batch.mask[3] = 1;
  ACOER_CHECK_THROWS(accumulate(*policy, batch, settings(), kNever), ErrorCode::kNotFinite, "");
  {
    const at::NoGradGuard noGrad;
    policy->parameters[0].value.fill_(NAN);
  }
  batch.refLogprobs[3] = -1;
  ACOER_CHECK_THROWS(accumulate(*policy, batch, settings(), kNever), ErrorCode::kNotFinite,
                     "completion token");
  ACOER_CHECK_LE(largestGap(*policy, before), 0);
}

ACOER_TEST(train_step_refuses_gradients_that_are_not_finite) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  accumulate(*policy, fullBatch(*policy), settings(), kNever);
  policy->parameters[4].leaf.mutable_grad().fill_(INFINITY);
  const at::Tensor before = policy->parameters[0].value.clone();
  const StepResult result = step(*policy, {.learningRate = 1, .weightDecay = 0, .maxGradNorm = 1});
  ACOER_CHECK(!result.applied && policy->stepCount == 0);
  ACOER_CHECK(at::equal(before, policy->parameters[0].value));
  ACOER_CHECK(!policy->parameters[4].leaf.grad().defined());
}

ACOER_TEST(train_batches_without_completions_do_nothing) {
  const auto policy = randomAdapter(doubleModel(true), 5);
  TrainBatch batch;
  batch.sequences.offsets = {0};
  ACOER_CHECK(accumulate(*policy, batch, settings(), kNever).loss == 0);
  batch.sequences = {{1, 2, 3}, {0, 3, 3}, {3, 0}};
  const AccumulateResult result = accumulate(*policy, batch, settings(), kNever);
  ACOER_CHECK(result.tokens == 0 && result.clippedLow.size() == 2 && result.logprobs.empty());
  ACOER_CHECK(score(*policy->model, nullptr, batch.sequences, 1, kNever).logprobs.empty());
}

ACOER_TEST(train_bad_sequences_are_named) {
  const auto model = doubleModel(true);
  const auto refuse = [&](const PackedSequences& batch, const std::string& part) {
    ACOER_CHECK_THROWS(score(*model, nullptr, batch, 1, kNever), ErrorCode::kBadArgument, part);
  };
  refuse({{1, 2}, {0, 1}, {1}}, "offsets do not fit");
  refuse({{1, 2}, {0, 2}, {0}}, "sequence 0 has no prompt token");
  refuse({{1, 2}, {0, 2}, {3}}, "prompt length 3");
  refuse({{1, 2, 3}, {0, 3, 2, 3}, {1, 0, 1}}, "offsets fall at sequence 1");
  refuse({{1, 99999}, {0, 2}, {1}}, "token id 99999");
  const auto length = static_cast<size_t>(model->config.maxPositions + 1);
  refuse({std::vector<int32_t>(length, 1), {0, int64_t(length)}, {1}}, "the model takes");
}

}  // namespace
}  // namespace acoer::check
