// The losses' derivatives against central differences of their values.
#include <cmath>

#include "check.h"
#include "loss.h"

namespace acoer::check {
namespace {

TrainBatch lossBatch() {
  TrainBatch batch;
  batch.sequences.offsets = {0, 5, 7, 15};
  batch.sequences.promptLengths = {1, 1, 1};
  batch.sequences.ids.assign(15, 0);
  for (int t = 0; t < 12; ++t) {
    batch.advantages.push_back(t < 4 ? 1.3 : t < 5 ? -0.7 : 0.4 - 0.1 * t);
    batch.mask.push_back(t != 2 && t != 4);
    batch.oldLogprobs.push_back(-1.1 - 0.01 * t);
    batch.refLogprobs.push_back(-1.3 + 0.05 * t);
    batch.importanceWeights.push_back(0.7 + 0.05 * t);
  }
  return batch;
}

std::vector<double> lossLogprobs() {
  std::vector<double> out;
  for (int t = 0; t < 12; ++t) out.push_back(-1.1 + 0.35 * std::sin(1.7 * t + 0.3));
  return out;
}

void checkSlopes(const LossSettings& settings) {
  const TrainBatch batch = lossBatch();
  std::vector<double> logprobs = lossLogprobs();
  const LossResult result = computeLoss(batch, settings, logprobs);
  constexpr double kStep = 1e-6;
  for (size_t t = 0; t < logprobs.size(); ++t) {
    const double at = logprobs[t];
    logprobs[t] = at + kStep;
    const double up = computeLoss(batch, settings, logprobs).loss;
    logprobs[t] = at - kStep;
    const double down = computeLoss(batch, settings, logprobs).loss;
    logprobs[t] = at;
    ACOER_CHECK_LE(std::abs((up - down) / (2 * kStep) - result.slopes[t]), 1e-8);
  }
}

// cispo and vespo hold their weights fixed on purpose: their values' differences are no gradient.
ACOER_TEST(train_loss_slopes_match_differences) {
  for (const LossType type : {LossType::kGrpo, LossType::kBnpo, LossType::kDrGrpo, LossType::kDapo,
                              LossType::kSapo, LossType::kLuspo}) {
    for (const ImportanceLevel level : {ImportanceLevel::kToken, ImportanceLevel::kSequence}) {
      for (const bool correction : {true, false}) {
        for (const std::optional<double> delta : {std::optional<double>(), {1.25}}) {
          LossSettings settings;
          settings.type = type;
          settings.level = level;
          settings.klBiasCorrection = correction;
          settings.delta = delta;
          settings.beta = 0.2;
          settings.normalizer = 3;
          checkSlopes(settings);
        }
      }
    }
  }
}

// On-policy, every ratio is 1 and the two sides of the clipped losses tie.
ACOER_TEST(train_on_policy_slopes_are_the_advantages) {
  TrainBatch batch = lossBatch();
  batch.oldLogprobs.clear();
  batch.importanceWeights.clear();
  for (const LossType type : {LossType::kBnpo, LossType::kDapo, LossType::kLuspo}) {
    LossSettings settings;
    settings.type = type;
    settings.normalizer = 5;
    const LossResult result = computeLoss(batch, settings, lossLogprobs());
    for (size_t t = 0; t < 12; ++t) {
      const double want = batch.mask[t] ? -batch.advantages[t] / 5 : 0;
      ACOER_CHECK_LE(std::abs(result.slopes[t] - want), 1e-15);
    }
  }
}

ACOER_TEST(train_loss_refuses_bad_settings) {
  const auto refuse = [](const std::function<void(TrainBatch&, LossSettings&)>& change,
                         const std::string& part) {
    TrainBatch batch = lossBatch();
    LossSettings settings;
    change(batch, settings);
    ACOER_CHECK_THROWS(checkLossInputs(batch, settings), ErrorCode::kBadArgument, part);
  };
  refuse([](auto& b, auto&) { b.mask.pop_back(); }, "mask has 11 values for 12");
  refuse([](auto& b, auto& s) { s.beta = 1, b.refLogprobs.clear(); }, "refLogprobs has 0");
  refuse([](auto&, auto& s) { s.normalizer = 0; }, "normalizer");
  refuse([](auto&, auto& s) { s.temperature = 0; }, "temperature");
  refuse([](auto&, auto& s) { s.beta = NAN; }, "beta");
}

}  // namespace
}  // namespace acoer::check
