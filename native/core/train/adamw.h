// The optimiser: torch.optim.AdamW's update, preceded by torch.nn.utils.clip_grad_norm_.
#pragma once

#include "train/gradients.h"

namespace acoer {

struct StepOptions {
  double learningRate = 0;
  double weightDecay = 0;  // of matrices; norms and biases do not decay (Parameter::decays)
  double maxGradNorm = 0;  // 0: no clipping
};

struct StepResult {
  double gradNorm = 0;   // before clipping
  bool applied = false;  // false: the norm is not finite; parameters and state are unchanged
};

// One step with the summed gradients, which are cleared even if the step is not applied. Of a
// policy with a shard only the shard's numbers change (shards.h). Drops the policy's tape
// (forward.h). Throws kBadArgument, before anything changes, for an option that is negative, not
// finite, or out of the range of the weights' type.
StepResult step(Policy& policy, const StepOptions& options);

}  // namespace acoer
