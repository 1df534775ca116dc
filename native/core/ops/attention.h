// Causal attention over a packed batch, with its backward.
#pragma once

#include "ops/packed.h"

namespace acoer {

// What backward needs: q, k and v of attention of our own, or the leaves and
// the output of one fused call of the library per bucket.
struct AttentionTape {
  struct Call {
    at::Tensor q, k, v, out;  // [n, heads, L, K]
  };
  at::Tensor q_THK, k_TJK, v_TJK;
  std::vector<Call> calls;
};

// q [T, H, K] and k [T, J, K], both already rotated, and v [T, J, K] -> [T, H, K]. Scores are
// scaled by 1/sqrt(K). Fills `tape` if it is not null.
at::Tensor attention(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                     const PackedLayout& layout, AttentionTape* tape);

// The type in which the library computes attention of `x`: fp32 for bf16 on a processor without
// instructions for it, where its bf16 kernels are slower.
at::ScalarType attentionType(const at::Tensor& x);

struct AttentionGradients {
  at::Tensor q_THK, k_TJK, v_TJK;
};
AttentionGradients attentionBackward(const AttentionTape& tape, const at::Tensor& dOut_THK,
                                     const PackedLayout& layout);

// Attention of our own over short sequences on a CPU (small_attention.cpp), fp32 or fp64. On the
// packed rows as they are: without padding, sequences may have rows in common (SequenceRows), and
// backward computes the scores again instead of keeping them. `type`: the model's.
bool isSmallAttention(at::Device device, at::ScalarType type, int64_t longest);
at::Tensor smallAttention(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                          const PackedLayout& layout);
AttentionGradients smallAttentionBackward(const at::Tensor& q_THK, const at::Tensor& k_TJK,
                                          const at::Tensor& v_TJK, const at::Tensor& dOut_THK,
                                          const PackedLayout& layout);

}  // namespace acoer
