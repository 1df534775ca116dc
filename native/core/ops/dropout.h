// LoRA dropout masks as a pure function of (seed, sequence, position, layer, target, channel).
//
// "Sequence" is a hash of its token ids, so a token's mask depends neither on how a step is split
// into micro-batches nor on the order of the sequences. Identical sequences of a step share their
// masks.
#pragma once

#include "model/policy.h"
#include "ops/packed.h"

namespace acoer {

struct DropoutPlan {
  uint64_t seed = 0;
  double probability = 0;
  std::vector<uint64_t> sequenceOfToken;  // [T] hash
  std::vector<int64_t> positionOfToken;   // [T]
  // With kernels: both of these, where the masks are made, so that a mask takes no upload.
  at::Tensor onDevice_2T;
  const GpuKernels* kernels = nullptr;
};
// With `kernels`, masks are made on `device`.
DropoutPlan makeDropoutPlan(const PackedSequences& batch, DropoutKey key, double probability,
                            const GpuKernels* kernels, at::Device device);

// Whether a mask costs less to make again in the backward pass than to keep: where it is a kernel's
// work.
inline bool remakesMasks(const DropoutPlan& plan) { return plan.kernels != nullptr; }

// [T, width] of 0 and 1 / (1 - p), in the type and on the device of `options`. p is rounded to a
// multiple of 1/65536.
at::Tensor dropoutMask(const DropoutPlan& plan, int64_t layer, int64_t target, int64_t width,
                       at::TensorOptions options);

}  // namespace acoer
