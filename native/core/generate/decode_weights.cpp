#include "generate/decode_weights.h"

#include <ATen/ATen.h>

#include "ops/linear.h"
#include "ops/small_products.h"

namespace acoer {
namespace {

struct GroupPart {
  Target target;
  int64_t firstColumn;
};

AdapterGroup makeGroup(const std::array<LoraPair, kNumTargets>& pairs,
                       const std::vector<GroupPart>& parts, int64_t columns, at::ScalarType dtype,
                       LinearForm form) {
  std::vector<at::Tensor> as, bs;
  AdapterGroup group;
  group.form = form;
  for (const GroupPart& part : parts) {
    const LoraPair& pair = pairs[part.target];
    if (!pair.defined()) continue;
    as.push_back(pair.a_RI.detach());
    bs.push_back((pair.b_OR.detach() * pair.scale).to(dtype));
    group.blocks.push_back({.b = makeLinear(bs.back(), form),
                            .firstRank = group.ranks,
                            .ranks = pair.a_RI.size(0),
                            .firstColumn = part.firstColumn,
                            .columns = pair.b_OR.size(0)});
    group.ranks += pair.a_RI.size(0);
  }
  if (as.empty()) return group;
  group.a = makeLinear(at::cat(as).to(dtype), form);
  if (form != LinearForm::kPlain) return group;
  group.bT_RO = at::zeros({group.ranks, columns}, group.a.w.options());
  for (size_t i = 0; i < bs.size(); ++i) {
    const AdapterGroup::Block& block = group.blocks[i];
    group.bT_RO.narrow(0, block.firstRank, block.ranks)
        .narrow(1, block.firstColumn, block.columns)
        .copy_(bs[i].t());
  }
  return group;
}

void addPanelAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                     const at::Tensor& t_NR) {
  linearForwardInto(t_NR, x_NI, group.a.w);
  for (const AdapterGroup::Block& block : group.blocks) {
    linearForwardInto(y_NO.narrow(1, block.firstColumn, block.columns),
                      t_NR.narrow(1, block.firstRank, block.ranks), block.b.w, {.add = true});
  }
}

}  // namespace

Linear makeLinear(const at::Tensor& w, LinearForm form) {
  Linear linear{.w = w.detach().contiguous(), .packed = {}, .bias_O = {}};
  if (form == LinearForm::kPanels) linear.w = panelsOf(linear.w);
  if (form == LinearForm::kSmall) linear.packed = packForProducts(linear.w);
  return linear;
}

void applyLinear(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO, bool add) {
  if (linear.bias_O.defined()) {
    startFromBias(y_NO, linear.bias_O);
    add = true;
  }
  if (linear.packed.defined()) return packedForwardInto(y_NO, x_NI, linear.packed, add);
  linearForwardInto(y_NO, x_NI, linear.w, {.add = add});
}

void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                const at::Tensor& ranks_NR) {
  if (!group.defined() || x_NI.size(0) == 0) return;
  const int64_t rows = x_NI.size(0);
  const at::Tensor t_NR =
      ranks_NR.view({-1}).narrow(0, 0, rows * group.ranks).view({rows, group.ranks});
  if (group.form == LinearForm::kPanels) return addPanelAdapter(group, x_NI, y_NO, t_NR);
  linearForwardInto(t_NR, x_NI, group.a.w);
  at::Tensor y = y_NO;
  y.addmm_(t_NR, group.bT_RO);
}

DecodeWeights makeDecodeWeights(const Weights& weights, LinearForm form) {
  DecodeWeights decode;
  // The model's own matrices are in panels already, or do not fit.
  const LinearForm own = form == LinearForm::kPanels ? LinearForm::kPlain : form;
  decode.embed_VD = weights.embed_VD.detach();
  decode.finalNorm_D = weights.finalNorm_D.detach();
  decode.head = makeLinear(weights.head_VD, own);
  const auto ifAny = [](const at::Tensor& t) { return t.defined() ? t.detach() : t; };
  for (const LayerWeights& layer : weights.layers) {
    decode.layers.push_back({.inputNorm_D = layer.inputNorm_D.detach(),
                             .postNorm_D = layer.postNorm_D.detach(),
                             .qNorm_K = ifAny(layer.qNorm_K),
                             .kNorm_K = ifAny(layer.kNorm_K),
                             .qkv = makeLinear(layer.qkv_ED, own),
                             .o = makeLinear(layer.o_DHK, own),
                             .gateUp = makeLinear(layer.gateUp_2FD, own),
                             .down = makeLinear(layer.down_DF, own)});
    decode.layers.back().qkv.bias_O = ifAny(layer.qkvBias_E);
  }
  return decode;
}

DecodeAdapter makeDecodeAdapter(const Policy& policy, LinearForm form) {
  const ModelSpec& spec = policy.model->spec;
  const at::ScalarType dtype = policy.model->dtype;
  const int64_t q = spec.qRows(), kv = spec.kvRows(), F = spec.intermediateSize;
  const int64_t D = spec.hiddenSize;
  DecodeAdapter adapter;
  for (const auto& pairs : policy.lora) {
    auto make = [&](const std::vector<GroupPart>& parts, int64_t columns) {
      AdapterGroup group = makeGroup(pairs, parts, columns, dtype, form);
      if (group.defined()) adapter.maxRanks = std::max(adapter.maxRanks, group.ranks);
      return group;
    };
    DecodeAdapter::Layer layer;
    layer.qkv = make({{kQ, 0}, {kK, q}, {kV, q + kv}}, q + 2 * kv);
    layer.o = make({{kO, 0}}, D);
    layer.gateUp = make({{kGate, 0}, {kUp, F}}, 2 * F);
    layer.down = make({{kDown, 0}}, D);
    adapter.layers.push_back(std::move(layer));
  }
  return adapter;
}

}  // namespace acoer
