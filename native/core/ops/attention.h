// Causal attention over a packed batch, with its backward.
#pragma once

#include "ops/packed.h"

namespace acoer {

// Queries, keys and values, or their gradients.
struct Heads {
  at::Tensor q_THK, k_TJK, v_TJK;
  Heads to(at::ScalarType type) const { return {q_THK.to(type), k_TJK.to(type), v_TJK.to(type)}; }
};
// The columns of a fused projection as views.
Heads splitHeads(const ModelSpec& spec, const at::Tensor& qkv_TE);

// What backward needs: what attention of our own read, or the leaves and the output of one fused
// call of the library per bucket.
struct AttentionTape {
  struct Call {
    at::Tensor q, k, v, out;  // [n, heads, L, K]
  };
  Heads own;
  std::vector<Call> calls;
};

// Of queries and keys that are already rotated -> [T, H, K]. Scores are scaled by 1/sqrt(K). Fills
// `tape` if it is not null.
at::Tensor attention(const Heads& heads, const PackedLayout& layout, AttentionTape* tape);

// The type in which the library computes attention of `x`: fp32 for bf16 on a processor without
// instructions for it, where its bf16 kernels are slower.
at::ScalarType attentionType(const at::Tensor& x);

Heads attentionBackward(const AttentionTape& tape, const at::Tensor& dOut_THK,
                        const PackedLayout& layout);

// Attention of our own over short sequences on a CPU (small_attention.cpp), fp32 or fp64. On the
// packed rows as they are: without padding, sequences may have rows in common (SequenceRows), and
// backward computes the scores again instead of keeping them. `type`: the model's.
bool isSmallAttention(at::Device device, at::ScalarType type, int64_t longest);
at::Tensor smallAttention(const Heads& heads, const PackedLayout& layout);
Heads smallAttentionBackward(const Heads& heads, const at::Tensor& dOut_THK,
                             const PackedLayout& layout);

}  // namespace acoer
