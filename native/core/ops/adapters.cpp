#include "ops/adapters.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/lora.h"

namespace acoer {
namespace {

AdapterGroup makeGroup(const Policy& policy, size_t layer, const FusedMatrix& fused,
                       Matrix::Form form) {
  const at::ScalarType dtype = policy.model->dtype;
  std::vector<at::Tensor> as, bs;
  AdapterGroup group;
  for (const AdaptedRows& adapted : adaptedRows(policy, layer, fused)) {
    const LoraPair& pair = *adapted.pair;
    as.push_back(pair.a_RI.detach());
    bs.push_back((pair.b_OR.detach() * pair.scale).to(dtype));
    group.blocks.push_back({.firstRank = group.ranks,
                            .ranks = pair.rank(),
                            .firstColumn = adapted.first,
                            .columns = adapted.rows,
                            .b = {}});
    group.ranks += pair.rank();
  }
  if (!group.defined()) return group;
  group.a = Matrix(at::cat(as).to(dtype)).in(form);
  if (form == Matrix::Form::kPanels) {
    for (size_t i = 0; i < bs.size(); ++i) group.blocks[i].b = Matrix(bs[i]).in(form);
    return group;
  }
  const int64_t columns = (policy.model->weights.layers[layer].*fused.weights).outputs();
  group.bT_RO = at::zeros({group.ranks, columns}, bs.front().options());
  for (size_t i = 0; i < bs.size(); ++i) {
    const AdapterGroup::Block& block = group.blocks[i];
    group.bT_RO.narrow(0, block.firstRank, block.ranks)
        .narrow(1, block.firstColumn, block.columns)
        .copy_(bs[i].t());
  }
  return group;
}

}  // namespace

bool mergesAdapters(const Model& model) {
  return isSmallOnCpu(model) && (model.dtype == at::kFloat || model.dtype == at::kDouble);
}

Weights mergedWeights(const Policy& policy) {
  Weights weights = policy.model->weights;
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (const FusedMatrix& fused : kFusedMatrices) {
      const std::vector<AdaptedRows> all = adaptedRows(policy, layer, fused);
      if (all.empty()) continue;
      Matrix& matrix = weights.layers[layer].*fused.weights;
      const at::Tensor sum = matrix.values().detach().clone();
      for (const AdaptedRows& adapted : all) {
        const LoraPair& pair = *adapted.pair;
        Matrix(pair.a_RI.detach())
            .backwardInto(sum.narrow(0, adapted.first, adapted.rows), pair.b_OR.detach(),
                          {.add = true, .scale = pair.scale});
      }
      matrix = Matrix(sum);
    }
  }
  return weights;
}

DecodeAdapter makeDecodeAdapter(const Policy& policy, Matrix::Form form) {
  DecodeAdapter adapter;
  for (size_t layer = 0; layer < policy.lora.size(); ++layer) {
    const auto make = [&](const FusedMatrix& fused) {
      AdapterGroup group = makeGroup(policy, layer, fused, form);
      adapter.maxRanks = std::max(adapter.maxRanks, group.ranks);
      return group;
    };
    adapter.layers.push_back({.qkv = make(kFusedQkv),
                              .o = make(kFusedO),
                              .gateUp = make(kFusedGateUp),
                              .down = make(kFusedDown)});
  }
  return adapter;
}

}  // namespace acoer
