// The gradients of a policy between two steps, summed in one flat tensor. Passes compute them in
// the weights' type; they are added up in fp64 where that is cheap, and rounded once for the step.
// Two orders of adding fp32 numbers in fp64 give the same fp32 number unless the sum lies within
// their rounding, 1e-16 of it, of the border between two fp32 numbers.
#pragma once

#include "model/policy.h"
#include "ops/projection.h"

namespace acoer {

// fp64 for adapters and for all weights of small models on a CPU, else the weights' type: for all
// weights of a large model the difference would be 4 bytes a parameter.
at::ScalarType gradientSumType(const Policy& policy);

// The gradients of `parameter`, in its shape, in a tensor laid out like the sums.
at::Tensor gradientIn(const at::Tensor& flat, const Parameter& parameter);

// Adds what a pass gave to `sums`, which is made if it is undefined. After an exception the sums
// are unchanged.
void addGradients(const Policy& policy, const GradientSink& from, at::Tensor& sums);
// Adds sums to those of the policy.
void addSums(Policy& policy, at::Tensor sums);

// The sums rounded to the weights' type; undefined without any.
at::Tensor roundedGradients(const Policy& policy);

// Drops the policy's tape, too.
void zeroGradients(Policy& policy);

// roundedGradients() by parameter name, for tests and diagnosis.
NamedTensors gradients(const Policy& policy);

// The sums on the host, to be added up with those of other processes in place. On a CPU they are
// the policy's own, kept between steps from now on; on a GPU a copy, which the next step takes
// instead of the policy's unless a gradient is added before. Every call gives the same memory,
// which lives as long as a tensor of it.
at::Tensor lendGradientSums(Policy& policy);

}  // namespace acoer
