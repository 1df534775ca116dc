#include "ops/attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cpu/kernels.h"
#include "ops/ops.h"

namespace acoer {

namespace {

at::Tensor toPadded(const at::Tensor& x, const PackedLayout& layout) {
  const at::Tensor rows = layout.identity ? x : x.index_select(0, layout.toPadded_P);
  return rows.to(attentionType(x));
}

// The rows of a bucket of padded x as [n, heads, L, K].
at::Tensor bucketView(const at::Tensor& x, const AttentionBucket& bucket) {
  return x.narrow(0, bucket.first, bucket.sequences * bucket.length)
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

Heads splitHeads(const ModelSpec& spec, const at::Tensor& qkv_TE) {
  const auto block = [&](int64_t from, int64_t heads) {
    return qkv_TE.narrow(1, from, heads * spec.headDim).unflatten(1, {heads, spec.headDim});
  };
  return {block(0, spec.numHeads), block(spec.qRows(), spec.numKvHeads),
          block(spec.qRows() + spec.kvRows(), spec.numKvHeads)};
}

at::Tensor attention(const Heads& heads, const PackedLayout& layout, AttentionTape* tape) {
  const auto& [q_THK, k_TJK, v_TJK] = heads;
  const auto type = q_THK.scalar_type();
  if (isSmallAttention(q_THK.device(), type, layout.longest)) {
    if (tape) *tape = {.own = heads, .calls = {}};
    return smallAttention(heads.to(wideType(type)), layout).to(type);  // bf16 in fp32
  }
  const at::Tensor q = toPadded(q_THK, layout), k = toPadded(k_TJK, layout),
                   v = toPadded(v_TJK, layout);
  const bool grouped = q_THK.size(1) != k_TJK.size(1);
  const c10::AutoGradMode grad(tape != nullptr);
  std::vector<at::Tensor> outs;
  for (const AttentionBucket& bucket : layout.buckets) {
    AttentionTape::Call call{bucketView(q, bucket).detach(),
                             bucketView(k, bucket).detach(),
                             bucketView(v, bucket).detach(),
                             {}};
    if (tape) {
      for (at::Tensor* leaf : {&call.q, &call.k, &call.v}) leaf->requires_grad_(true);
    }
    call.out = at::scaled_dot_product_attention(call.q, call.k, call.v, {}, 0.0,
                                                /*is_causal=*/true, std::nullopt, grouped);
    outs.push_back(call.out.detach());
    if (tape) tape->calls.push_back(std::move(call));
  }
  const c10::AutoGradMode off(false);
  return fromBuckets(outs, layout, type);
}

Heads attentionBackward(const AttentionTape& tape, const at::Tensor& dOut_THK,
                        const PackedLayout& layout) {
  const auto type = dOut_THK.scalar_type();
  if (tape.own.q_THK.defined()) {
    const auto wide = wideType(type);
    return smallAttentionBackward(tape.own.to(wide), dOut_THK.to(wide), layout).to(type);
  }
  at::Tensor dOut = toPadded(dOut_THK, layout);
  if (layout.isPadding_P.defined()) {
    dOut.masked_fill_(layout.isPadding_P.view({-1, 1, 1}), 0);
  }
  std::vector<at::Tensor> dq, dk, dv;
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    const AttentionTape::Call& call = tape.calls[i];
    call.out.backward(bucketView(dOut, layout.buckets[i]));
    dq.push_back(call.q.grad());
    dk.push_back(call.k.grad());
    dv.push_back(call.v.grad());
  }
  return {fromBuckets(dq, layout, type), fromBuckets(dk, layout, type),
          fromBuckets(dv, layout, type)};
}

}  // namespace acoer
