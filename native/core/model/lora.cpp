#include "model/lora.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace acoer {

const std::array<const char*, kNumTargets> kTargetNames = {
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"};

TargetShape targetShape(const ModelSpec& spec, Target target) {
  switch (target) {
    case kQ:
      return {spec.qRows(), spec.hiddenSize};
    case kK:
    case kV:
      return {spec.kvRows(), spec.hiddenSize};
    case kO:
      return {spec.hiddenSize, spec.qRows()};
    case kGate:
    case kUp:
      return {spec.intermediateSize, spec.hiddenSize};
    case kDown:
      return {spec.hiddenSize, spec.intermediateSize};
    case kNumTargets:
      break;
  }
  fail(ErrorCode::kInternal, "no such LoRA target");
}

std::vector<AdaptedRows> adaptedRows(const Policy& policy, size_t layer, const FusedMatrix& fused) {
  std::vector<AdaptedRows> adapted;
  int64_t first = 0;
  for (int target = fused.first; target <= fused.last; ++target) {
    const int64_t rows = targetShape(policy.model->spec, static_cast<Target>(target)).out;
    const LoraPair& pair = policy.lora[layer][static_cast<size_t>(target)];
    if (pair.defined()) adapted.push_back({&pair, static_cast<Target>(target), first, rows});
    first += rows;
  }
  return adapted;
}

std::string targetPath(int64_t layer, Target target) {
  return "base_model.model.model.layers." + std::to_string(layer) +
         (target <= kO ? ".self_attn." : ".mlp.") + kTargetNames[target];
}

std::vector<LoraMatrix> loraMatrices(const ModelSpec& spec, const PolicyOptions& options) {
  std::vector<LoraMatrix> matrices = options.matrices;
  if (!matrices.empty()) {
    std::sort(matrices.begin(), matrices.end(), [](const LoraMatrix& x, const LoraMatrix& y) {
      return std::pair(x.layer, x.target) < std::pair(y.layer, y.target);
    });
    return matrices;
  }
  for (int64_t layer = 0; layer < spec.numLayers; ++layer) {
    for (int target = 0; target < kNumTargets; ++target) {
      if (!options.targets[static_cast<size_t>(target)]) continue;
      matrices.push_back({layer, static_cast<Target>(target), options.rank, options.alpha});
    }
  }
  return matrices;
}

LoraPair makeLoraPair(const ModelSpec& spec, const LoraMatrix& matrix, const PolicyOptions& options,
                      at::TensorOptions tensorOptions) {
  const auto [layer, target, rank, alpha] = matrix;
  const TargetShape shape = targetShape(spec, target);
  const double bound = 1 / std::sqrt(static_cast<double>(shape.in));
  const at::Tensor a_RI = at::empty({rank, shape.in}, at::kDouble);
  auto* out = a_RI.data_ptr<double>();
  const auto place = static_cast<uint64_t>(layer * kNumTargets + target);
  const int64_t total = a_RI.numel();
  at::parallel_for(0, (total + 3) / 4, 1 << 14, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      const auto bits = philox(options.seed, static_cast<uint64_t>(block), place);
      for (int64_t i = 4 * block; i < std::min(total, 4 * block + 4); ++i) {
        // 24 bits are exact in fp32, so fp32 and fp64 policies start out equal up to rounding of
        // the bound.
        out[i] = bound * (2 * (uniform24(bits[static_cast<size_t>(i % 4)])) - 1);
      }
    }
  });
  const auto divisor = static_cast<double>(rank);
  return {a_RI.to(tensorOptions.dtype().toScalarType()).to(tensorOptions.device()),
          at::zeros({shape.out, rank}, tensorOptions),
          alpha / (options.rankStabilized ? std::sqrt(divisor) : divisor)};
}

}  // namespace acoer
