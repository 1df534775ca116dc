#include "ops/merged.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <initializer_list>

#include "model/lora.h"
#include "ops/linear.h"

namespace acoer {
namespace {

// `w` holds the rows of `targets` in order.
at::Tensor merged(const Policy& policy, size_t layer, const at::Tensor& w,
                  std::initializer_list<Target> targets) {
  const auto& pairs = policy.lora[layer];
  const auto adapted = [&](Target target) { return pairs[target].defined(); };
  if (std::none_of(targets.begin(), targets.end(), adapted)) return w;
  const at::Tensor sum = w.detach().clone();
  int64_t row = 0;
  for (const Target target : targets) {
    const int64_t rows = targetShape(policy.model->spec, target).out;
    if (adapted(target)) {
      const LoraPair& pair = pairs[target];
      linearBackwardInto(sum.narrow(0, row, rows), pair.b_OR.detach(), pair.a_RI.detach(),
                         {.add = true, .scale = pair.scale});
    }
    row += rows;
  }
  return sum;
}

}  // namespace

bool mergesAdapters(const Model& model) {
  return isSmallOnCpu(model) && (model.dtype == at::kFloat || model.dtype == at::kDouble);
}

Weights mergedWeights(const Policy& policy) {
  Weights weights = policy.model->weights;
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    LayerWeights& w = weights.layers[layer];
    w.qkv_ED = merged(policy, layer, w.qkv_ED, {kQ, kK, kV});
    w.o_DHK = merged(policy, layer, w.o_DHK, {kO});
    w.gateUp_2FD = merged(policy, layer, w.gateUp_2FD, {kGate, kUp});
    w.down_DF = merged(policy, layer, w.down_DF, {kDown});
  }
  return weights;
}

}  // namespace acoer
