#include "generate/decode_attention.h"

#include <ATen/ATen.h>

#include <limits>
#include <optional>

#include "generate/decode.h"
#include "ops/attention.h"
#include "ops/ops.h"

namespace acoer {

at::Tensor attendPrompt(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK) {
  const auto type = attentionType(q_THK);
  auto batched = [&](const at::Tensor& x) { return x.to(type).transpose(0, 1).unsqueeze(0); };
  const at::Tensor out = at::scaled_dot_product_attention(
      batched(q_THK), batched(k_TJK), batched(v_TJK), {}, 0.0, /*is_causal=*/true, std::nullopt,
      /*enable_gqa=*/q_THK.size(1) != k_TJK.size(1));
  return out.squeeze(0).transpose(0, 1).flatten(1).to(q_THK.scalar_type());
}

CacheView viewCache(const int32_t* slots, int64_t count, int64_t length, const at::Tensor& slots_N,
                    const at::Tensor& positions_N, at::ScalarType dtype) {
  CacheView view;
  view.firstSlot = slots[0];
  view.length = length;
  for (int64_t n = 0; n < count; ++n) {
    if (slots[n] != slots[0] + n) view.slots_N = slots_N;
  }
  // In the type of the queries, so that no layer has to convert it again.
  view.mask_N11L = at::zeros({count, 1, 1, length}, positions_N.options().dtype(dtype))
                       .masked_fill_(at::arange(length, positions_N.options()) >
                                         positions_N.view({count, 1, 1, 1}),
                                     -std::numeric_limits<double>::infinity());
  return view;
}

at::Tensor attendCache(const at::Tensor& q_NHK, const at::Tensor& keys_SJLK,
                       const at::Tensor& values_SJLK, const CacheView& view) {
  const int64_t N = q_NHK.size(0), H = q_NHK.size(1), K = q_NHK.size(2), J = keys_SJLK.size(1);
  auto ofRows = [&](const at::Tensor& cache) {
    const at::Tensor live = cache.narrow(2, 0, view.length);
    return view.slots_N.defined() ? live.index_select(0, view.slots_N)
                                  : live.narrow(0, view.firstSlot, N);
  };
  // The heads of a group become query rows of their KV head, so that no key is repeated.
  return at::scaled_dot_product_attention(q_NHK.reshape({N, J, H / J, K}), ofRows(keys_SJLK),
                                          ofRows(values_SJLK),
                                          view.mask_N11L.expand({N, 1, H / J, -1}))
      .reshape({N, H * K});
}

void Decoder::attentionByTensorOps(Part& part, size_t layer, bool writeOnly) const {
  const ModelSpec& spec = model_.spec;
  const DecodeLayer& w = part.weights->layers[layer];
  const at::Tensor heads = part.qkv_NE.view({part.count(), -1, spec.headDim});
  auto rotate = [&](const at::Tensor& x, const at::Tensor& weight_K) {
    const at::Tensor normed = spec.qkNorm ? rmsNorm(x, weight_K, spec.rmsNormEps) : x;
    return applyRope(normed, part.cos_NK, part.sin_NK);
  };
  const at::Tensor q_NHK = rotate(heads.narrow(1, 0, spec.numHeads), w.qNorm_K);
  const at::Tensor k_NJK = rotate(heads.narrow(1, spec.numHeads, spec.numKvHeads), w.kNorm_K);
  const at::Tensor v_NJK = heads.narrow(1, spec.numHeads + spec.numKvHeads, spec.numKvHeads);
  at::Tensor keys = part.cache->keys(static_cast<int64_t>(layer));
  at::Tensor values = part.cache->values(static_cast<int64_t>(layer));
  const c10::List<std::optional<at::Tensor>> places(
      {std::optional<at::Tensor>(part.device.slots_N), std::nullopt,
       std::optional<at::Tensor>(part.device.positions_N)});
  at::index_put_(keys, places, k_NJK);
  at::index_put_(values, places, v_NJK);
  if (writeOnly) return;
  if (!part.prefill) {
    part.heads_NHK.copy_(attendCache(q_NHK, keys, values, part.view));
    return;
  }
  for (const PromptSpan& span : part.prompts) {
    auto prompt = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    prompt(part.heads_NHK).copy_(attendPrompt(prompt(q_NHK), prompt(k_NJK), prompt(v_NJK)));
  }
}

}  // namespace acoer
