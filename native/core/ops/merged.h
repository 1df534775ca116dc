// Adapters added to the matrices of a small model, so that a product with both is one.
#pragma once

#include "model/policy.h"

namespace acoer {

// Whether a model multiplies by merged matrices instead of its own and an adapter's. In fp32 and
// fp64 that is as exact as two products, and for a small model the sums cost less than the products
// of one step. In bf16 most of an update would be lost.
bool mergesAdapters(const Model& model);

// The weights of a LoRA policy, W + scale B A where there is a pair. Matrices without one are the
// model's own.
Weights mergedWeights(const Policy& policy);

}  // namespace acoer
