#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cpu/kernels.h"

namespace acoer {

namespace {

at::Tensor toPadded(const at::Tensor& x, const PackedLayout& layout) {
  const at::Tensor rows = layout.identity ? x : x.index_select(0, layout.toPadded_P);
  return rows.to(attentionType(x));
}

// Our own attention computes bf16 in fp32.
at::Tensor widened(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

// Rows [first, first + n * L) of padded x as [n, heads, L, K].
at::Tensor bucketView(const at::Tensor& x, int64_t first, const AttentionBucket& bucket) {
  return x.narrow(0, first, bucket.sequences * bucket.length)
      .unflatten(0, {bucket.sequences, bucket.length})
      .transpose(1, 2);
}

// The inverse of bucketView over all buckets, back in packed order and in `type`.
at::Tensor fromBuckets(const std::vector<at::Tensor>& parts, const PackedLayout& layout,
                       at::ScalarType type) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& part : parts) rows.push_back(part.transpose(1, 2).flatten(0, 1));
  const at::Tensor padded = rows.size() == 1 ? rows[0] : at::cat(rows);
  return (layout.identity ? padded : padded.index_select(0, layout.toPacked_T)).to(type);
}

}  // namespace

at::ScalarType attentionType(const at::Tensor& x) {
  const bool widens = x.is_cpu() && x.scalar_type() == at::kBFloat16 && !kernels::hasBf16Products();
  return widens ? at::kFloat : x.scalar_type();
}

at::Tensor attention(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK,
                     const PackedLayout& layout, AttentionTape* tape) {
  if (isSmallAttention(q_THK.device(), q_THK.scalar_type(), layout.longest)) {
    if (tape) *tape = {.q_THK = q_THK, .k_TJK = k_TJK, .v_TJK = v_TJK, .calls = {}};
    return smallAttention(widened(q_THK), widened(k_TJK), widened(v_TJK), layout)
        .to(q_THK.scalar_type());
  }
  const at::Tensor q = toPadded(q_THK, layout), k = toPadded(k_TJK, layout),
                   v = toPadded(v_TJK, layout);
  const bool grouped = q_THK.size(1) != k_TJK.size(1);
  const c10::AutoGradMode grad(tape != nullptr);
  std::vector<at::Tensor> outs;
  int64_t first = 0;
  for (const AttentionBucket& bucket : layout.buckets) {
    AttentionTape::Call call{bucketView(q, first, bucket).detach(),
                             bucketView(k, first, bucket).detach(),
                             bucketView(v, first, bucket).detach(),
                             {}};
    if (tape) {
      for (at::Tensor* leaf : {&call.q, &call.k, &call.v}) leaf->requires_grad_(true);
    }
    call.out = at::scaled_dot_product_attention(call.q, call.k, call.v, {}, 0.0,
                                                /*is_causal=*/true, std::nullopt, grouped);
    outs.push_back(call.out.detach());
    if (tape) tape->calls.push_back(std::move(call));
    first += bucket.sequences * bucket.length;
  }
  const c10::AutoGradMode off(false);
  return fromBuckets(outs, layout, q_THK.scalar_type());
}

AttentionGradients attentionBackward(const AttentionTape& tape, const at::Tensor& dOut_THK,
                                     const PackedLayout& layout) {
  if (tape.q_THK.defined()) {
    const AttentionGradients d = smallAttentionBackward(
        widened(tape.q_THK), widened(tape.k_TJK), widened(tape.v_TJK), widened(dOut_THK), layout);
    const auto type = dOut_THK.scalar_type();
    return {d.q_THK.to(type), d.k_TJK.to(type), d.v_TJK.to(type)};
  }
  at::Tensor dOut = toPadded(dOut_THK, layout);
  if (layout.isPadding_P.defined()) {
    dOut.masked_fill_(layout.isPadding_P.view({-1, 1, 1}), 0);
  }
  std::vector<at::Tensor> dq, dk, dv;
  int64_t first = 0;
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    const AttentionTape::Call& call = tape.calls[i];
    call.out.backward(bucketView(dOut, first, layout.buckets[i]));
    dq.push_back(call.q.grad());
    dk.push_back(call.k.grad());
    dv.push_back(call.v.grad());
    first += layout.buckets[i].sequences * layout.buckets[i].length;
  }
  const auto type = dOut_THK.scalar_type();
  return {fromBuckets(dq, layout, type), fromBuckets(dk, layout, type),
          fromBuckets(dv, layout, type)};
}

}  // namespace acoer
