// Small pieces of the model that training, scoring and decoding share. rmsNorm and ropeTable are
// declared in forward.h.
#pragma once

#include "forward.h"

namespace acoer {

// x[..., in] W[out, in]^T.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);

// Rotary embedding in the half-split layout: x[T, heads, K] with cos, sin [T, K] already in x's
// type and chosen for the tokens' positions.
at::Tensor applyRope(const at::Tensor& x_THK, const at::Tensor& cos_TK, const at::Tensor& sin_TK);

// silu(gate) * up of the fused projection [T, 2F] -> [T, F].
at::Tensor swiglu(const at::Tensor& gateUp_T2F);

}  // namespace acoer
