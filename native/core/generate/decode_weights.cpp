#include "generate/decode_weights.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/cpu/kernels.h"
#include "ops/linear.h"

namespace acoer {
namespace {

// Below this a parallel region costs more than it saves.
constexpr int64_t kParallelFlops = int64_t{1} << 23;

template <class T>
at::Tensor packMatrix(const at::Tensor& w_OI) {
  const auto& math = kernels::mathKernels<T>();
  const int64_t outputs = w_OI.size(0), inputs = w_OI.size(1);
  const int64_t panels = (outputs + math.panelWidth - 1) / math.panelWidth;
  at::Tensor packed = at::empty({panels, inputs, math.panelWidth}, w_OI.options());
  math.pack(w_OI.const_data_ptr<T>(), inputs, outputs, inputs, T(1), packed.mutable_data_ptr<T>());
  return packed;
}

template <class T>
void applyPacked(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO, bool add) {
  const int64_t ldx = x_NI.stride(0), ldy = y_NO.stride(0);
  const T* x = x_NI.const_data_ptr<T>();
  T* y = y_NO.mutable_data_ptr<T>();
  const int64_t outputs = outputsOf(linear.w), inputs = inputsOf(linear.w);
  const T* w = linear.packed.const_data_ptr<T>();
  const auto gemm = kernels::mathKernels<T>().gemm;
  const int64_t grain = std::max<int64_t>(8, kParallelFlops / (2 * outputs * inputs));
  at::parallel_for(0, x_NI.size(0), grain, [&](int64_t begin, int64_t end) {
    gemm(x + begin * ldx, ldx, w, y + begin * ldy, ldy, end - begin, outputs, inputs, add);
  });
}

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
  if (form == LinearForm::kSmall) {
    linear.packed =
        w.scalar_type() == at::kDouble ? packMatrix<double>(linear.w) : packMatrix<float>(linear.w);
  }
  return linear;
}

void applyLinear(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO, bool add) {
  if (linear.bias_O.defined()) {
    startFromBias(y_NO, linear.bias_O);
    add = true;
  }
  if (!linear.packed.defined()) return linearForwardInto(y_NO, x_NI, linear.w, {.add = add});
  if (x_NI.scalar_type() == at::kDouble) return applyPacked<double>(linear, x_NI, y_NO, add);
  applyPacked<float>(linear, x_NI, y_NO, add);
}

void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                const at::Tensor& ranks_NR, int64_t begin, int64_t end) {
  if (!group.defined() || begin == end) return;
  const at::Tensor t_NR = ranks_NR.view({-1})
                              .narrow(0, 0, (end - begin) * group.ranks)
                              .view({end - begin, group.ranks});
  const at::Tensor x = x_NI.slice(0, begin, end);
  at::Tensor y = y_NO.slice(0, begin, end);
  if (group.form == LinearForm::kPanels) return addPanelAdapter(group, x, y, t_NR);
  linearForwardInto(t_NR, x, group.a.w);
  y.addmm_(t_NR, group.bT_RO);
}

LinearForm chooseForm(const Model& model, bool kernels) {
  if (!kernels) return LinearForm::kPlain;
  if (model.dtype == at::kBFloat16) return LinearForm::kPanels;
  const bool exact = model.dtype == at::kFloat || model.dtype == at::kDouble;
  return exact && model.bytes <= kSmallModelBytes ? LinearForm::kSmall : LinearForm::kPlain;
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
