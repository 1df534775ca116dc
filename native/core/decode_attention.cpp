#include "decode_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "kv_cache.h"

namespace acoer {
namespace {

// The part of the cache that holds the slots, and the order of rows that matches it.
struct SlotView {
  at::Tensor keys_NJLK, values_NJLK;
  std::vector<int64_t> order;  // the row of each entry; empty: already in order
};

SlotView viewSlots(const at::Tensor& keys, const at::Tensor& values, const int32_t* slots,
                   int64_t count, int64_t length) {
  SlotView view;
  const auto [low, high] = std::minmax_element(slots, slots + count);
  const at::Tensor k = keys.narrow(2, 0, length), v = values.narrow(2, 0, length);
  if (*high - *low + 1 == count) {
    view.keys_NJLK = k.narrow(0, *low, count);
    view.values_NJLK = v.narrow(0, *low, count);
    if (!std::is_sorted(slots, slots + count)) {
      view.order.resize(static_cast<size_t>(count));
      for (int64_t n = 0; n < count; ++n) view.order[static_cast<size_t>(slots[n] - *low)] = n;
    }
    return view;
  }
  // The rows of several full policies interleave in the cache. That needs a copy, but is rare.
  const at::Tensor index =
      at::tensor(at::ArrayRef<int32_t>(slots, static_cast<size_t>(count)), at::kInt)
          .to(keys.device());
  view.keys_NJLK = k.index_select(0, index);
  view.values_NJLK = v.index_select(0, index);
  return view;
}

std::vector<int64_t> inverseOf(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return inverse;
}

}  // namespace

at::Tensor attendPrompt(const at::Tensor& q_THK, const at::Tensor& k_TJK, const at::Tensor& v_TJK) {
  auto batched = [](const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const at::Tensor out = at::scaled_dot_product_attention(
      batched(q_THK), batched(k_TJK), batched(v_TJK), {}, 0.0, /*is_causal=*/true, std::nullopt,
      /*enable_gqa=*/q_THK.size(1) != k_TJK.size(1));
  return out.squeeze(0).transpose(0, 1).flatten(1);
}

at::Tensor attendCache(const at::Tensor& q_NHK, const at::Tensor& keys_SJLK,
                       const at::Tensor& values_SJLK, const int32_t* slots_N,
                       const int32_t* positions_N) {
  const int64_t N = q_NHK.size(0), H = q_NHK.size(1), K = q_NHK.size(2), J = keys_SJLK.size(1);
  const int64_t longest = *std::max_element(positions_N, positions_N + N) + 1;
  const SlotView view =
      viewSlots(keys_SJLK, values_SJLK, slots_N, N, KvCache::roundedPositions(longest));
  std::vector<int32_t> last(positions_N, positions_N + N);
  at::Tensor q = q_NHK;
  if (!view.order.empty()) {
    for (size_t i = 0; i < last.size(); ++i) {
      last[i] = positions_N[static_cast<size_t>(view.order[i])];
    }
    q = q.index_select(0, at::tensor(view.order).to(q.device()));
  }
  // The heads of a group become query rows of their KV head, so that no key is repeated.
  const at::Tensor last_N = at::tensor(last, at::kInt).to(q.device());
  const at::Tensor mask_N11L =
      (at::arange(view.keys_NJLK.size(2), last_N.options()) <= last_N.unsqueeze(1))
          .unsqueeze(1)
          .unsqueeze(1);
  at::Tensor out =
      at::scaled_dot_product_attention(q.reshape({N, J, H / J, K}), view.keys_NJLK,
                                       view.values_NJLK, mask_N11L.expand({N, 1, H / J, -1}))
          .reshape({N, H * K});
  if (view.order.empty()) return out;
  return out.index_select(0, at::tensor(inverseOf(view.order)).to(out.device()));
}

}  // namespace acoer
