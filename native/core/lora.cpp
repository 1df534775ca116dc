#include "lora.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "philox.h"

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

std::string targetPath(int64_t layer, Target target) {
  return "base_model.model.model.layers." + std::to_string(layer) +
         (target <= kO ? ".self_attn." : ".mlp.") + kTargetNames[target];
}

LoraPair makeLoraPair(const ModelSpec& spec, int64_t rank, uint64_t seed, int64_t layer,
                      Target target, at::TensorOptions options) {
  const TargetShape shape = targetShape(spec, target);
  const double bound = 1 / std::sqrt(static_cast<double>(shape.in));
  const at::Tensor a_RI = at::empty({rank, shape.in}, at::kDouble);
  auto* out = a_RI.data_ptr<double>();
  const auto place = static_cast<uint64_t>(layer * kNumTargets + target);
  const int64_t total = a_RI.numel();
  at::parallel_for(0, (total + 3) / 4, 1 << 14, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      const auto bits = philox(seed, static_cast<uint64_t>(block), place);
      for (int64_t i = 4 * block; i < std::min(total, 4 * block + 4); ++i) {
        // 24 bits are exact in fp32, so fp32 and fp64 policies start out equal up to rounding of
        // the bound.
        out[i] = bound * (2 * (uniform24(bits[static_cast<size_t>(i % 4)])) - 1);
      }
    }
  });
  return {a_RI.to(options.dtype().toScalarType()).to(options.device()),
          at::zeros({shape.out, rank}, options)};
}

}  // namespace acoer
