#include "loss.h"

#include <algorithm>
#include <cmath>

namespace acoer {

namespace {

constexpr double kLogRatioBound = 20;                       // vespo clamps log ratios to +-20
constexpr double kSmallestLogWeight = -18.420680743952367;  // ln 1e-8
constexpr double kSmallestLambda = 1e-4;

// One token's policy loss as a function of its importance ratio w or of its log-prob.
struct TokenLoss {
  double loss = 0;
  double slopeRatio = 0;    // dloss/dw
  double slopeLogprob = 0;  // dloss/dlogprob beside the way through w
  bool low = false, high = false;
};

double clampSlope(double x, double low, double high) { return x >= low && x <= high ? 1 : 0; }

// grpo, bnpo, dr_grpo, dapo, luspo: -min(min(w, delta) A, clip(w, 1 - low, 1 + high) A).
TokenLoss clippedLoss(const LossSettings& s, double w, double advantage) {
  const double low = 1 - s.epsilonLow, high = 1 + s.epsilonHigh;
  const double first = s.delta ? std::min(w, *s.delta) : w;
  const double second = std::clamp(w, low, high);
  const double firstSlope = s.delta && w > *s.delta ? 0 : 1;
  const double secondSlope = clampSlope(w, low, high);
  const double a = first * advantage, b = second * advantage;
  TokenLoss out;
  out.loss = -std::min(a, b);
  // A tie shares the gradient between the two sides, as autograd of `minimum` does.
  const double share = a < b ? 1 : a > b ? 0 : 0.5;
  out.slopeRatio = -advantage * (share * firstSlope + (1 - share) * secondSlope);
  out.low = first < low && advantage < 0;
  out.high = first > high && advantage > 0;
  return out;
}

// -min(w, epsilonHigh) A logp with the weight held fixed: epsilonHigh is the bound itself.
TokenLoss cispoLoss(const LossSettings& s, double w, double advantage, double logprob) {
  TokenLoss out;
  const double weight = std::min(w, s.epsilonHigh);
  out.loss = -weight * advantage * logprob;
  out.slopeLogprob = -weight * advantage;
  out.high = w > s.epsilonHigh && advantage > 0;
  return out;
}

// -sigmoid(t (w - 1)) 4 / t A, with t by the sign of A.
TokenLoss sapoLoss(const LossSettings& s, double w, double advantage) {
  const double t = advantage > 0 ? s.sapoTemperaturePos : s.sapoTemperatureNeg;
  const double gate = 1 / (1 + std::exp(-t * (w - 1)));
  TokenLoss out;
  out.loss = -gate * 4 / t * advantage;
  out.slopeRatio = -4 * gate * (1 - gate) * advantage;
  return out;
}

// exp(lambda + k log w - lambda w): 1 at w = 1, and held fixed in the gradient.
double vespoPhi(const LossSettings& s, double logWeight, double advantage) {
  const bool positive = advantage >= 0;
  const double k = positive ? s.vespoKPos : s.vespoKNeg;
  const double lambda = std::max(kSmallestLambda, positive ? s.vespoLambdaPos : s.vespoLambdaNeg);
  const double phi = std::exp(lambda + k * logWeight - lambda * std::exp(logWeight));
  return std::isfinite(phi) ? phi : 0;
}

// The tokens [from, to) of one sequence.
class SequenceLoss {
 public:
  SequenceLoss(const TrainBatch& batch, const LossSettings& settings,
               const std::vector<double>& logprobs, size_t from, size_t to, LossResult& result)
      : batch_(batch), s_(settings), logprobs_(logprobs), from_(from), to_(to), result_(result) {}

  void add() {
    for (size_t t = from_; t < to_; ++t) active_ += batch_.mask[t] ? 1 : 0;
    prepare();
    for (size_t t = from_; t < to_; ++t) {
      if (batch_.mask[t]) addToken(t);
    }
    if (s_.level == ImportanceLevel::kSequence) spreadRatioSlope();
    const double shown = std::max(active_, 1.0);
    result_.clippedLow.push_back(low_ / shown);
    result_.clippedHigh.push_back(high_ / shown);
    // TRL's mean of phi is over every sequence: one without a token in the loss has phi(1) = 1.
    result_.vespoPhi.push_back(active_ > 0 ? phiSum_ / active_ : 1);
  }

 private:
  double logRatio(size_t t) const {
    return batch_.oldLogprobs.empty() ? 0 : logprobs_[t] - batch_.oldLogprobs[t];
  }

  double importance(size_t t) const {
    return batch_.importanceWeights.empty() ? 1 : batch_.importanceWeights[t];
  }

  // Weight of each token's loss in the step's loss.
  double tokenWeight() const {
    const bool perSequence = s_.type == LossType::kGrpo || s_.type == LossType::kSapo;
    return 1 / (s_.normalizer * (perSequence ? std::max(active_, 1.0) : 1.0));
  }

  // The sequence's ratio, and vespo's log of its whole weight.
  void prepare() {
    double sum = 0, clampedSum = 0;
    for (size_t t = from_; t < to_; ++t) {
      if (!batch_.mask[t]) continue;
      sum += logRatio(t);
      clampedSum += std::clamp(logRatio(t), -kLogRatioBound, kLogRatioBound);
      if (!batch_.importanceWeights.empty()) {
        clampedSum += std::clamp(std::log(importance(t)), kSmallestLogWeight, kLogRatioBound);
      }
    }
    sequenceRatio_ = std::exp(sum / std::max(active_, 1.0));
    logWeight_ = std::clamp(clampedSum, kSmallestLogWeight, kLogRatioBound);
  }

  TokenLoss policyLoss(size_t t, double w) {
    const double advantage = batch_.advantages[t];
    switch (s_.type) {
      case LossType::kCispo:
        return cispoLoss(s_, w, advantage, logprobs_[t]);
      case LossType::kSapo:
        return sapoLoss(s_, w, advantage);
      case LossType::kVespo: {
        const double phi = vespoPhi(s_, logWeight_, advantage);
        phiSum_ += phi;
        TokenLoss out;
        out.loss = -phi * advantage * logprobs_[t];
        out.slopeLogprob = -phi * advantage;
        return out;
      }
      default:
        return clippedLoss(s_, w, advantage);
    }
  }

  // k3 of the reference, times w under bias correction; its w has a gradient too.
  void addKl(size_t t, double w, TokenLoss& token) {
    const double gap = batch_.refLogprobs[t] - logprobs_[t];
    const double k3 = std::expm1(gap) - gap;
    const double factor = s_.klBiasCorrection ? w : 1;
    result_.klSum += k3 * factor;
    token.loss += s_.beta * k3 * factor;
    token.slopeLogprob += s_.beta * factor * -std::expm1(gap);
    if (s_.klBiasCorrection) token.slopeRatio += s_.beta * k3;
  }

  void addToken(size_t t) {
    const bool byToken = s_.level == ImportanceLevel::kToken;
    const double w = byToken ? std::exp(logRatio(t)) : sequenceRatio_;
    TokenLoss token = policyLoss(t, w);
    low_ += token.low;
    high_ += token.high;
    if (s_.type != LossType::kVespo) {  // vespo has it inside phi
      const double importance = this->importance(t);
      token.loss *= importance;
      token.slopeRatio *= importance;
      token.slopeLogprob *= importance;
    }
    if (s_.beta != 0) addKl(t, w, token);
    const double weight = tokenWeight();
    result_.loss += weight * token.loss;
    result_.slopes[t] += weight * token.slopeLogprob;
    if (token.slopeRatio == 0) return;  // w may be infinite where it has no part in the loss
    if (byToken) {
      result_.slopes[t] += weight * token.slopeRatio * w;
    } else {
      ratioSlope_ += weight * token.slopeRatio;
    }
  }

  // dw/dlogprob_t = w / active for every unmasked token of the sequence.
  void spreadRatioSlope() {
    if (ratioSlope_ == 0) return;
    for (size_t t = from_; t < to_; ++t) {
      if (batch_.mask[t]) result_.slopes[t] += ratioSlope_ * sequenceRatio_ / active_;
    }
  }

  const TrainBatch& batch_;
  const LossSettings& s_;
  const std::vector<double>& logprobs_;
  const size_t from_, to_;
  LossResult& result_;
  double active_ = 0, sequenceRatio_ = 1, logWeight_ = 0, ratioSlope_ = 0;
  double low_ = 0, high_ = 0, phiSum_ = 0;
};

}  // namespace

void checkLossInputs(const TrainBatch& batch, const LossSettings& s) {
  const auto need = [](bool good, const std::string& what) {
    if (!good) fail(ErrorCode::kBadArgument, what);
  };
  const auto tokens = static_cast<size_t>(batch.sequences.completionTokens());
  const auto length = [&](const char* name, size_t size, bool optional) {
    need(size == tokens || (optional && size == 0),
         std::string(name) + " has " + std::to_string(size) + " values for " +
             std::to_string(tokens) + " completion tokens");
  };
  length("advantages", batch.advantages.size(), false);
  length("mask", batch.mask.size(), false);
  length("oldLogprobs", batch.oldLogprobs.size(), true);
  length("refLogprobs", batch.refLogprobs.size(), s.beta == 0);
  length("importanceWeights", batch.importanceWeights.size(), true);
  const auto positive = [&](const char* name, double value) {
    need(std::isfinite(value) && value > 0, std::string(name) + " must be a positive number");
  };
  positive("the normalizer", s.normalizer);
  positive("the temperature", s.temperature);
  positive("sapoTemperaturePos", s.sapoTemperaturePos);
  positive("sapoTemperatureNeg", s.sapoTemperatureNeg);
  if (s.delta) positive("delta", *s.delta);
  need(std::isfinite(s.beta) && s.beta >= 0, "beta must be zero or positive");
  need(std::isfinite(s.epsilonLow) && s.epsilonLow >= 0 && std::isfinite(s.epsilonHigh) &&
           s.epsilonHigh >= 0,
       "epsilonLow and epsilonHigh must be zero or positive");
  for (const double value : {s.vespoKPos, s.vespoKNeg, s.vespoLambdaPos, s.vespoLambdaNeg}) {
    need(std::isfinite(value), "vespo's k and lambda must be finite");
  }
}

LossResult computeLoss(const TrainBatch& batch, const LossSettings& settings,
                       const std::vector<double>& logprobs) {
  LossResult result;
  result.slopes.assign(logprobs.size(), 0);
  size_t from = 0;
  for (size_t b = 0; b < batch.sequences.promptLengths.size(); ++b) {
    const auto tokens =
        static_cast<size_t>(batch.sequences.offsets[b + 1] - batch.sequences.offsets[b] -
                            batch.sequences.promptLengths[b]);
    SequenceLoss(batch, settings, logprobs, from, from + tokens, result).add();
    from += tokens;
  }
  return result;
}

}  // namespace acoer
