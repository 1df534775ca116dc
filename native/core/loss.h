// TRL 1.13's eight GRPO losses and their derivatives with respect to each log-prob, in closed form
// on float64 vectors. Formulas follow the behaviour of GRPOTrainer's loss; loss.cpp names each.
#pragma once

#include "train.h"

namespace acoer {

struct LossResult {
  double loss = 0;
  double klSum = 0;
  std::vector<double> slopes;  // dloss/dlogprob per token
  std::vector<double> clippedLow, clippedHigh, vespoPhi;
};

// Throws kBadArgument when settings are out of range or a vector's length is not `tokens`.
void checkLossInputs(const TrainBatch& batch, const LossSettings& settings);

LossResult computeLoss(const TrainBatch& batch, const LossSettings& settings,
                       const std::vector<double>& logprobs);

}  // namespace acoer
