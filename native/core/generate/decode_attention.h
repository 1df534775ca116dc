// The attention of decoding as tensor operations, for any device.
#pragma once

#include <ATen/core/Tensor.h>

namespace acoer {

// Causal attention inside one prompt: q [T, H, K], k and v [T, J, K] -> [T, H * K].
at::Tensor attendPrompt(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK);

// What the rows of a decode step see of the cache, the same in every layer.
struct CacheView {
  int64_t firstSlot = 0;  // row n has slot firstSlot + n
  at::Tensor slots_N;     // unless this is defined: then its slots are gathered, which takes a copy
  int64_t length = 0;     // of the longest row, rounded up
  at::Tensor mask_N11L;   // 0 or -infinity
};
// `slots`: [count] in host memory; slots_N and positions_N: the same on the device, int64.
CacheView viewCache(const int32_t* slots, int64_t count, int64_t length, const at::Tensor& slots_N,
                    const at::Tensor& positions_N, at::ScalarType dtype);

// One query per row against positions 0..positions[n] of its slot -> [N, H * K]. The cache must not
// be tiled.
at::Tensor attendCache(const at::Tensor& q_NHK, const at::Tensor& keys_SJLK,
                       const at::Tensor& values_SJLK, const CacheView& view);

}  // namespace acoer
