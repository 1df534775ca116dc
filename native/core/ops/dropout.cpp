#include "ops/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "ops/gpu_ops.h"
#include "ops/ops.h"

namespace acoer {

DropoutPlan makeDropoutPlan(const PackedSequences& batch, DropoutKey key, double probability,
                            const GpuKernels* kernels, at::Device device) {
  DropoutPlan plan;
  plan.seed = key.seed;
  plan.probability = probability;
  plan.kernels = kernels;
  for (size_t b = 0; b < batch.promptLengths.size(); ++b) {
    uint64_t hash = 0;
    for (int64_t i = batch.offsets[b]; i < batch.offsets[b + 1]; ++i) {
      const auto id = static_cast<uint64_t>(batch.ids[static_cast<size_t>(i)]);
      const auto bits = philox(hash, id, 0x5EC0FFEE);
      hash = uint64_t{bits[1]} << 32 | bits[0];
    }
    for (int64_t i = batch.offsets[b]; i < batch.offsets[b + 1]; ++i) {
      plan.sequenceOfToken.push_back(hash);
      plan.positionOfToken.push_back(i - batch.offsets[b]);
    }
  }
  if (kernels == nullptr) return plan;
  const at::Tensor both_2T = at::empty({2, std::ssize(batch.ids)}, at::kLong);
  auto* to = reinterpret_cast<uint64_t*>(both_2T.mutable_data_ptr<int64_t>());
  to = std::copy(plan.sequenceOfToken.begin(), plan.sequenceOfToken.end(), to);
  std::copy(plan.positionOfToken.begin(), plan.positionOfToken.end(), to);
  plan.onDevice_2T = onDevice(both_2T, device);
  return plan;
}

at::Tensor dropoutMask(const DropoutPlan& plan, int64_t layer, int64_t target, int64_t width,
                       at::TensorOptions options) {
  const auto tokens = std::ssize(plan.sequenceOfToken);
  const auto threshold = static_cast<uint32_t>(std::lround(plan.probability * 65536));
  const double keep = 65536.0 / (65536.0 - threshold);
  const auto place = static_cast<uint64_t>(layer * kNumTargets + target);
  const at::Tensor done = gpuDropoutMask(plan, threshold, place, width, options);
  if (done.defined()) return done;
  const at::Tensor mask = at::empty({tokens, width}, at::kFloat);
  auto* out = mask.data_ptr<float>();
  at::parallel_for(0, tokens, 16, [&](int64_t from, int64_t to) {
    for (int64_t t = from; t < to; ++t) {
      const auto i = static_cast<size_t>(t);
      const auto position = static_cast<uint64_t>(plan.positionOfToken[i]);
      for (int64_t c = 0; c < width; c += 8) {
        // 16 bits per channel, eight channels per block.
        const auto bits = philox(plan.seed ^ plan.sequenceOfToken[i],
                                 position << 32 | static_cast<uint64_t>(c / 8), place);
        for (int64_t j = c; j < std::min(width, c + 8); ++j) {
          const uint32_t word = bits[static_cast<size_t>(j - c) / 2];
          const uint32_t draw = (j - c) % 2 ? word >> 16 : word & 0xFFFF;
          out[t * width + j] = draw < threshold ? 0.0F : static_cast<float>(keep);
        }
      }
    }
  });
  return mask.to(options.dtype().toScalarType()).to(options.device());
}

}  // namespace acoer
