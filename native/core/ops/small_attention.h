// Causal attention over short sequences on a CPU, of our own products in fp32 and fp64. On the
// packed rows as they are: without padding, and backward computes the scores again instead of
// keeping them.
#pragma once

#include "ops/attention.h"

namespace acoer {

// `type`: the model's.
bool isSmallAttention(at::Device device, at::ScalarType type, int64_t longest);
// fp32 or fp64. As attention() and attentionBackward(); sequences may have rows in common
// (SequenceRows).
at::Tensor smallAttention(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                          const PackedLayout& layout);
AttentionGradients smallAttentionBackward(const at::Tensor& q_THK, const at::Tensor& k_TJK,
                                          const at::Tensor& v_TJK, const at::Tensor& dOut_THK,
                                          const PackedLayout& layout);

}  // namespace acoer
