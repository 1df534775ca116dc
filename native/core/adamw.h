// The optimiser: torch.optim.AdamW's update with torch.nn.utils.clip_grad_norm_ before it.
#pragma once

#include "policy.h"

namespace acoer {

struct StepOptions {
  double learningRate = 0;
  double weightDecay = 0;
  double maxGradNorm = 0;  // 0: no clipping
};

struct StepResult {
  double gradNorm = 0;   // before clipping
  bool applied = false;  // false: the norm is not finite; parameters and state are unchanged
};

// One step over the accumulated gradients, which are cleared either way. Drops the policy's tape
// (forward.h).
StepResult step(Policy& policy, const StepOptions& options);

// Drops the policy's tape, too.
void zeroGradients(Policy& policy);

// The accumulated gradients, by parameter name (tests and diagnosis).
std::vector<std::pair<std::string, at::Tensor>> gradients(const Policy& policy);

}  // namespace acoer
