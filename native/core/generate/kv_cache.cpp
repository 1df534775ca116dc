#include "generate/kv_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/kernels.h"
#include "ops/ops.h"

namespace acoer {
namespace {

constexpr int64_t kTile = kernels::kKeyTile;

// Fewer bytes than this are not worth starting another thread for.
constexpr int64_t kGrainBytes = int64_t{1} << 18;

// How many units `positions` take in dimension 2 of keys or values: tiles or positions.
int64_t unitsOf(const at::Tensor& cache, int64_t positions) {
  return cache.dim() == 5 ? (positions + kTile - 1) / kTile : positions;
}

at::Tensor range(const at::Tensor& cache, int64_t slotBegin, int64_t slots, int64_t begin,
                 int64_t positions) {
  return cache.narrow(0, slotBegin, slots)
      .narrow(2, unitsOf(cache, begin), unitsOf(cache, positions));
}

// In both layouts adjacent positions of a head are one contiguous piece of memory.
void copyOnCpu(const at::Tensor& from, int64_t fromSlot, int64_t fromPosition, const at::Tensor& to,
               int64_t toSlot, int64_t toPosition, int64_t positions) {
  const int64_t element = from.element_size();
  const size_t bytes = static_cast<size_t>(unitsOf(from, positions) * from.stride(2) * element);
  const int64_t begin = fromSlot * from.stride(0) + unitsOf(from, fromPosition) * from.stride(2);
  const char* source = static_cast<const char*>(from.const_data_ptr()) + begin * element;
  const int64_t end = toSlot * to.stride(0) + unitsOf(to, toPosition) * to.stride(2);
  char* target = static_cast<char*>(to.data_ptr()) + end * element;
  for (int64_t j = 0; j < from.size(1); ++j) {
    std::memcpy(target + j * to.stride(1) * element, source + j * from.stride(1) * element, bytes);
  }
}

}  // namespace

QuantizedHeads quantized(const at::Tensor& heads) {
  const at::Tensor wide = heads.to(wideType(heads.scalar_type()));
  const at::Tensor scales =
      (wide.abs().amax(-1) / 127).to(at::kFloat).clamp_min(kernels::kLeastScale);
  return {(wide / scales.unsqueeze(-1).to(wide.scalar_type())).round().to(at::kChar), scales};
}

at::Tensor dequantized(const QuantizedHeads& heads, at::ScalarType dtype) {
  const auto wide = wideType(dtype);
  return (heads.codes.to(wide) * heads.scales.unsqueeze(-1).to(wide)).to(dtype);
}

KvCache::KvCache(const ModelSpec& spec, at::Device device, at::ScalarType dtype, bool tiledKeys)
    : layers_(spec.numLayers),
      kvHeads_(spec.numKvHeads),
      headDim_(spec.headDim),
      device_(device),
      dtype_(dtype),
      tiledKeys_(tiledKeys) {
  for (auto& layers : parts_) layers.resize(static_cast<size_t>(layers_));
  resize(0, 0, 0, 0);
}

int64_t KvCache::bytesPerPosition(const ModelSpec& spec, at::ScalarType dtype) {
  const int64_t scaleBytes = dtype == at::kChar ? static_cast<int64_t>(sizeof(float)) : 0;
  const int64_t headBytes =
      spec.headDim * static_cast<int64_t>(c10::elementSize(dtype)) + scaleBytes;
  return 2 * spec.numLayers * spec.numKvHeads * headBytes;
}

int64_t KvCache::roundedPositions(int64_t positions) {
  return (positions + kTile - 1) / kTile * kTile;
}

at::Tensor KvCache::make(Part part) const {
  const bool scales = part == kKeyScales || part == kValueScales;
  const auto options = at::device(device_).dtype(scales ? at::kFloat : dtype_);
  std::vector<int64_t> shape{slots_, kvHeads_, positions_};
  if (part == kKeys && tiledKeys_) {
    shape = {slots_, kvHeads_, positions_ / kTile, headDim_, kTile};
  } else if (!scales) {
    shape.push_back(headDim_);
  }
  // Masked attention multiplies unwritten positions by zero, so they must not be NaN.
  return tiledKeys_ ? at::empty(shape, options) : at::zeros(shape, options);
}

void KvCache::resize(int64_t slots, int64_t positions, int64_t keepSlots, int64_t keepPositions) {
  slots_ = slots;
  positions_ = roundedPositions(positions);
  // Layer by layer, so that the old and the new room exist together for only one layer at a time.
  for (int64_t i = 0; i < layers_; ++i) {
    for (int64_t part = 0; part < parts(); ++part) {
      at::Tensor& cache = parts_[static_cast<size_t>(part)][static_cast<size_t>(i)];
      at::Tensor grown = make(static_cast<Part>(part));
      if (keepSlots > 0 && keepPositions > 0) {
        range(grown, 0, keepSlots, 0, keepPositions)
            .copy_(range(cache, 0, keepSlots, 0, keepPositions));
      }
      cache = std::move(grown);
    }
  }
}

void KvCache::copySlot(const KvCache& from, int64_t fromSlot, int64_t fromPosition, int64_t toSlot,
                       int64_t positions, int64_t toPosition) {
  if (positions == 0) return;
  const auto copyLayers = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t p = 0; p < parts(); ++p) {
        const auto which = static_cast<Part>(p);
        const at::Tensor &source = from.part(which, i), &target = part(which, i);
        if (device_.is_cpu()) {
          copyOnCpu(source, fromSlot, fromPosition, target, toSlot, toPosition, positions);
        } else {
          range(target, toSlot, 1, toPosition, positions)
              .copy_(range(source, fromSlot, 1, fromPosition, positions));
        }
      }
    }
  };
  if (!device_.is_cpu()) return copyLayers(0, layers_);
  const int64_t bytesOfLayer =
      2 * positions * kvHeads_ * headDim_ * static_cast<int64_t>(c10::elementSize(dtype_));
  at::parallel_for(0, layers_, std::max<int64_t>(1, kGrainBytes / bytesOfLayer), copyLayers);
}

}  // namespace acoer
