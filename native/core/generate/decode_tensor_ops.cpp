// The decoder's steps between the matrix products, as tensor operations.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "generate/decode_ops.h"
#include "ops/norm.h"
#include "ops/ops.h"

namespace acoer {
namespace {

// `slots`: [count] in host memory; slots_N and positions_N: the same on the device, int64.
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

// What the rows of a decode step see of keys or values, or of their scales: [N, J, length, ...].
at::Tensor seenBy(const CacheView& view, const at::Tensor& cache, int64_t rows) {
  const at::Tensor live = cache.narrow(2, 0, view.length);
  return view.slots_N.defined() ? live.index_select(0, view.slots_N)
                                : live.narrow(0, view.firstSlot, rows);
}

// One query per row against positions 0..positions[n] of its slot -> [N, H * K]. The cache must not
// be tiled.
at::Tensor attendCache(const at::Tensor& q_NHK, const KvCache& cache, int64_t layer,
                       const CacheView& view) {
  const int64_t N = q_NHK.size(0), H = q_NHK.size(1), K = q_NHK.size(2);
  const int64_t J = cache.keys(layer).size(1);
  const auto ofRows = [&](const at::Tensor& elements, const at::Tensor& scales) {
    const at::Tensor seen = seenBy(view, elements, N);
    return cache.isQuantized() ? dequantized({seen, seenBy(view, scales, N)}, q_NHK.scalar_type())
                               : seen;
  };
  // The heads of a group become query rows of their KV head, so that no key is repeated.
  return at::scaled_dot_product_attention(q_NHK.reshape({N, J, H / J, K}),
                                          ofRows(cache.keys(layer), cache.keyScales(layer)),
                                          ofRows(cache.values(layer), cache.valueScales(layer)),
                                          view.mask_N11L.expand({N, 1, H / J, -1}))
      .reshape({N, H * K});
}

class TensorDecodeOps final : public DecodeOps {
 public:
  TensorDecodeOps(const Model& model, int64_t positions)
      : DecodeOps(model, Matrix::Form::kPlain, positions, model.dtype) {}

  void placeRows(DecodePart& part, const DecodeRows& rows) const override {
    part.device = uploadRows(rows, part.begin, part.end, at::kLong, model_.device);
    part.cos_NK = rope_.cos_PK.index_select(0, part.device.positions_N);
    part.sin_NK = rope_.sin_PK.index_select(0, part.device.positions_N);
    if (part.prefill) return;
    const int32_t* positions = rows.positions.data() + part.begin;
    const int64_t longest = *std::max_element(positions, positions + part.count()) + 1;
    part.view = viewCache(rows.pages_NT.data() + part.begin, part.count(),
                          KvCache::roundedPositions(longest), part.device.pages_NT.select(1, 0),
                          part.device.positions_N, model_.dtype);
  }

  void norm(DecodePart& part, const at::Tensor& weight_D) const override {
    part.normed_ND.copy_(rmsRotateByTensorOps(part.x_ND, weight_D, model_.spec.rmsNormEps, {}).y);
  }

  void activation(DecodePart& part) const override { part.act_NF.copy_(swiglu(part.gateUp_N2F)); }

  void attention(DecodePart& part, size_t layer, bool writeOnly) const override {
    const ModelSpec& spec = model_.spec;
    const LayerWeights& w = part.weights->layers[layer];
    const Heads heads = splitHeads(spec, part.qkv_NE);
    auto rotate = [&](const at::Tensor& x, const at::Tensor& weight_K) {
      return rmsRotateByTensorOps(x, weight_K, spec.rmsNormEps, {part.cos_NK, part.sin_NK}).y;
    };
    const at::Tensor q_NHK = rotate(heads.q_THK, w.qNorm_K);
    const KvCache& cache = *part.cache;
    const auto number = static_cast<int64_t>(layer);
    const at::Tensor k_NJK =
        written(part, rotate(heads.k_TJK, w.kNorm_K), cache.keys(number), cache.keyScales(number));
    const at::Tensor v_NJK =
        written(part, heads.v_TJK, cache.values(number), cache.valueScales(number));
    if (writeOnly) return;
    if (!part.prefill) {
      part.heads_NHK.copy_(attendCache(q_NHK, cache, number, part.view));
      return;
    }
    for (const PromptSpan& span : part.prompts) {
      auto prompt = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
      prompt(part.heads_NHK).copy_(attendPrompt({prompt(q_NHK), prompt(k_NJK), prompt(v_NJK)}));
    }
  }

 private:
  // Heads of the rows into the cache; returns what is read back from there.
  static at::Tensor written(const DecodePart& part, const at::Tensor& heads_NJK, at::Tensor cache,
                            at::Tensor scales) {
    const c10::List<std::optional<at::Tensor>> places(
        {std::optional<at::Tensor>(part.device.pages_NT.select(1, 0)), std::nullopt,
         std::optional<at::Tensor>(part.device.positions_N)});
    if (!part.cache->isQuantized()) {
      at::index_put_(cache, places, heads_NJK);
      return heads_NJK;
    }
    const QuantizedHeads kept = quantized(heads_NJK);
    at::index_put_(cache, places, kept.codes);
    at::index_put_(scales, places, kept.scales);
    return dequantized(kept, heads_NJK.scalar_type());
  }
};

}  // namespace

std::unique_ptr<DecodeOps> tensorDecodeOps(const Model& model, int64_t positions) {
  return std::make_unique<TensorDecodeOps>(model, positions);
}

}  // namespace acoer
