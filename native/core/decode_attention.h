// The attention of decoding as tensor operations, for any device.
#pragma once

#include <ATen/core/Tensor.h>

namespace acoer {

// Causal attention inside one prompt: q [T, H, K], k and v [T, J, K] -> [T, H * K].
at::Tensor attendPrompt(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK);

// One query per row against positions 0..positions[n] of its slot -> [N, H * K]. `slots_N` and
// `positions_N` are in host memory; the cache must not be tiled.
at::Tensor attendCache(const at::Tensor& q_NHK, const at::Tensor& keys_SJLK,
                       const at::Tensor& values_SJLK, const int32_t* slots_N,
                       const int32_t* positions_N);

}  // namespace acoer
