// What processes exchange of a policy of which each has a shard (model/policy.h). All have the sums
// of all gradients, and so the same norm; each takes the step on its shard, and they gather the new
// weights. The exchange goes through the memory of the gradients' sums, which are zero between two
// steps: it takes no further memory.
#pragma once

#include "model/policy.h"

namespace acoer {

enum class Sharded { kWeights, kExpAvg, kExpAvgSq };

// Copies what the shard has of `what` to its place in lendGradientSums(), whose sums are lost, and
// returns that. Until takeWeights() or zeroGradients() the policy must not be trained.
at::Tensor lendShard(Policy& policy, Sharded what);

// The weights become those that were gathered there, and the gradients zero. Drops the policy's
// tape. Throws kBadArgument if nothing was lent.
void takeWeights(Policy& policy);

}  // namespace acoer
