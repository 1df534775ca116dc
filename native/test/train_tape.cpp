// What forward() keeps in a policy for backward(): for how long, and what a failure leaves.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "check.h"
#include "device_models.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;
const char* const kNoTape = "call forward first";

ModelSpec twoLayers() {
  ModelSpec spec = smallSpec();
  spec.numLayers = 2;
  return spec;
}

PackedSequences ragged(uint64_t seed = 1) {
  return randomSequences(twoLayers(), {3, 9, 1}, {6, 1, 40}, seed);
}

std::shared_ptr<Policy> adapter(at::ScalarType dtype = at::kDouble) {
  return randomAdapter(randomModel(twoLayers(), at::kCPU, dtype, 3), 5);
}

void run(Policy& policy, const PackedSequences& batch, const Cancel& cancel = kNever) {
  forward(policy, batch, 1, std::nullopt, cancel);
}

void checkNoTape(Policy& policy) {
  ACOER_CHECK(tapeBytes(policy) == 0);
  ACOER_CHECK_THROWS(backward(policy, randomSlopes(ragged(), 2), kNever), ErrorCode::kBadArgument,
                     kNoTape);
}

// With a tape, attention runs under autograd and the head computes slopes: the values stay the
// same.
ACOER_TEST(train_tape_does_not_change_the_log_probs) {
  PolicyOptions full;
  full.kind = PolicyOptions::Kind::kFull;
  for (const auto& policy :
       {adapter(), adapter(at::kFloat), adapter(at::kBFloat16),
        createPolicy(randomModel(twoLayers(), at::kCPU, at::kFloat, 3), full)}) {
    const ScoreResult want = score(*policy->model, policy.get(), ragged(), 0.7, kNever);
    for (const int64_t keepBytes : {kKeepAll, int64_t{0}}) {
      const ScoreResult got = forward(*policy, ragged(), 0.7, std::nullopt, kNever, keepBytes);
      ACOER_CHECK(got.logprobs == want.logprobs && got.entropies == want.entropies);
    }
  }
}

ACOER_TEST(train_tape_is_the_last_forward_s) {
  const auto policy = adapter();
  const PackedSequences first = randomSequences(twoLayers(), {4}, {9}, 8), second = ragged();
  const auto slopes = randomSlopes(second, 2);
  addGradients(*policy, second, slopes);
  const auto want = gradients(*policy);
  zeroGradients(*policy);
  run(*policy, first);
  const int64_t firstBytes = tapeBytes(*policy);
  run(*policy, second);
  ACOER_CHECK(firstBytes > 0 && tapeBytes(*policy) > firstBytes);
  backward(*policy, slopes, kNever);
  ACOER_CHECK_LE(largestGap(gradients(*policy), want), 0);
  checkNoTape(*policy);
}

ACOER_TEST(train_tape_goes_with_what_it_was_made_from) {
  const auto policy = adapter();
  const TensorFile values(valuesOf(*policy)), state(optimizerStateOf(*policy));
  checkNoTape(*policy);
  const std::vector<std::function<void()>> drops{[&] { step(*policy, {.learningRate = 1e-3}); },
                                                 [&] { zeroGradients(*policy); },
                                                 [&] { restorePolicy(*policy, values.table); }};
  for (const auto& drop : drops) {
    run(*policy, ragged());
    ACOER_CHECK(tapeBytes(*policy) > 0);
    drop();
    checkNoTape(*policy);
  }
  // The tape survives rejected settings of a step, restoring the optimiser's state, and a score.
  run(*policy, ragged());
  ACOER_CHECK_THROWS(step(*policy, {.learningRate = -1}), ErrorCode::kBadArgument, "");
  restoreOptimizer(*policy, state.table);
  score(*policy->model, policy.get(), ragged(8), 1, kNever);
  backward(*policy, randomSlopes(ragged(), 2), kNever);
}

ACOER_TEST(train_tape_is_not_left_by_a_failed_forward) {
  const auto policy = adapter();
  Cancel cancelled;
  cancelled.request();
  run(*policy, ragged());
  ACOER_CHECK_THROWS(run(*policy, ragged(), cancelled), ErrorCode::kCancelled, "");
  checkNoTape(*policy);
  run(*policy, ragged());
  ACOER_CHECK_THROWS(run(*policy, {{1, 2}, {0, 2}, {3}}), ErrorCode::kBadShape, "sequence 0");
  checkNoTape(*policy);
}

ACOER_TEST(train_tape_goes_and_gradients_stay_when_backward_fails) {
  PolicyOptions full;
  full.kind = PolicyOptions::Kind::kFull;
  for (const auto& policy :
       {adapter(), createPolicy(randomModel(twoLayers(), at::kCPU, at::kDouble, 3), full)}) {
    const auto slopes = randomSlopes(ragged(), 2);
    addGradients(*policy, ragged(), slopes);
    const auto before = gradients(*policy);
    const auto refuse = [&](const std::vector<double>& bad, const Cancel& cancel, ErrorCode code,
                            const std::string& part) {
      run(*policy, ragged());
      ACOER_CHECK_THROWS(backward(*policy, bad, cancel), code, part);
      checkNoTape(*policy);
      ACOER_CHECK_LE(largestGap(gradients(*policy), before), 0);
    };
    Cancel cancelled;
    cancelled.request();
    refuse(slopes, cancelled, ErrorCode::kCancelled, "");
    refuse({1, 2, 3}, kNever, ErrorCode::kBadShape, "dLogprobs has 3 numbers for 47");
    for (const double value : {double{NAN}, double{INFINITY}}) {
      auto bad = slopes;
      bad[6] = value;
      refuse(bad, kNever, ErrorCode::kBadArgument, "dLogprobs[6] is not finite");
    }
  }
}

// If backward began, it would throw, because it is cancelled.
ACOER_TEST(train_tape_goes_without_work_when_every_slope_is_zero) {
  const auto policy = adapter();
  Cancel cancelled;
  cancelled.request();
  run(*policy, ragged());
  backward(*policy, std::vector<double>(47, 0.0), cancelled);
  ACOER_CHECK(!policy->gradientSums.flat.defined());
  checkNoTape(*policy);
}

ACOER_TEST(train_values_that_are_not_finite_are_returned) {
  const auto policy = adapter();
  {
    const at::NoGradGuard noGrad;
    policy->parameters[0].value.fill_(NAN);
  }
  const ScoreResult result = forward(*policy, ragged(), 1, std::nullopt, kNever);
  ACOER_CHECK(result.logprobs.size() == 47);
  for (const double logprob : result.logprobs) ACOER_CHECK(std::isnan(logprob));
}

}  // namespace
}  // namespace acoer::check
