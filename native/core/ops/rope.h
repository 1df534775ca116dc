// Rotary embeddings: frequencies, their scaling for long contexts, angles.
#pragma once

#include "model/model.h"

namespace acoer {

// What turns the pairs (i, i + K/2) of a head: [K/2], in fp32 or fp64. The formulas and roundings
// are those of transformers' modeling_rope_utils.py: Llama 3's scaling, and YaRN's
// (https://arxiv.org/abs/2309.00071).
at::Tensor ropeFrequencies(const ModelSpec& spec, at::ScalarType dtype);

// cos and sin of shape [n, K] for positions 0 to n - 1, times YaRN's attention factor, in fp32
// (fp64 for fp64 models).
struct RopeTable {
  at::Tensor cos_PK;
  at::Tensor sin_PK;
};
RopeTable ropeTable(const ModelSpec& spec, int64_t positions, at::Device device,
                    at::ScalarType dtype);

// Rotary embedding in the half-split layout: x [T, heads, K] with cos and sin [T, K], which must be
// in x's type and belong to the tokens' positions.
at::Tensor applyRope(const at::Tensor& x_THK, const at::Tensor& cos_TK, const at::Tensor& sin_TK);

}  // namespace acoer
