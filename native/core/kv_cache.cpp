#include "kv_cache.h"

#include <ATen/ATen.h>

#include <cstring>

#include "cpu_kernels.h"

namespace acoer {
namespace {

constexpr int64_t kTile = kernels::kKeyTile;

// The first `positions` positions of a keys or values tensor: dimension 2 counts positions or
// tiles.
at::Tensor prefix(const at::Tensor& cache, int64_t slotBegin, int64_t slots, int64_t positions) {
  const int64_t units = cache.dim() == 5 ? (positions + kTile - 1) / kTile : positions;
  return cache.narrow(0, slotBegin, slots).narrow(2, 0, units);
}

// In both layouts the prefix of a head is one contiguous piece of memory.
void copyOnCpu(const at::Tensor& from, int64_t fromSlot, const at::Tensor& to, int64_t toSlot,
               int64_t positions) {
  const int64_t units = from.dim() == 5 ? (positions + kTile - 1) / kTile : positions;
  const int64_t element = from.element_size();
  const size_t bytes = static_cast<size_t>(units * from.stride(2) * element);
  const char* source =
      static_cast<const char*>(from.const_data_ptr()) + fromSlot * from.stride(0) * element;
  char* target = static_cast<char*>(to.data_ptr()) + toSlot * to.stride(0) * element;
  for (int64_t j = 0; j < from.size(1); ++j) {
    std::memcpy(target + j * to.stride(1) * element, source + j * from.stride(1) * element, bytes);
  }
}

}  // namespace

KvCache::KvCache(const ModelSpec& spec, at::Device device, at::ScalarType dtype, bool tiledKeys)
    : kvHeads_(spec.numKvHeads),
      headDim_(spec.headDim),
      device_(device),
      dtype_(dtype),
      tiledKeys_(tiledKeys),
      keys_(static_cast<size_t>(spec.numLayers)),
      values_(static_cast<size_t>(spec.numLayers)) {
  for (size_t i = 0; i < keys_.size(); ++i) {
    keys_[i] = makeKeys();
    values_[i] = makeValues();
  }
}

int64_t KvCache::bytesPerPosition(const ModelSpec& spec, at::ScalarType dtype) {
  return 2 * spec.numLayers * spec.kvRows() * static_cast<int64_t>(c10::elementSize(dtype));
}

int64_t KvCache::roundedPositions(int64_t positions) {
  return (positions + kTile - 1) / kTile * kTile;
}

at::Tensor KvCache::makeKeys() const {
  const auto options = at::device(device_).dtype(dtype_);
  if (tiledKeys_) {
    return at::empty({slots_, kvHeads_, positions_ / kTile, headDim_, kTile}, options);
  }
  return at::zeros({slots_, kvHeads_, positions_, headDim_}, options);
}

at::Tensor KvCache::makeValues() const {
  const auto options = at::device(device_).dtype(dtype_);
  // Masked attention multiplies unwritten positions by zero, so they must not be NaN.
  if (!tiledKeys_) return at::zeros({slots_, kvHeads_, positions_, headDim_}, options);
  return at::empty({slots_, kvHeads_, positions_, headDim_}, options);
}

void KvCache::resize(int64_t slots, int64_t positions, int64_t keepSlots, int64_t keepPositions) {
  slots_ = slots;
  positions_ = roundedPositions(positions);
  // Layer by layer, so that the old and the new room exist together for only one layer at a time.
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (at::Tensor* cache : {&keys_[i], &values_[i]}) {
      at::Tensor grown = cache == &keys_[i] ? makeKeys() : makeValues();
      if (keepSlots > 0 && keepPositions > 0) {
        prefix(grown, 0, keepSlots, keepPositions)
            .copy_(prefix(*cache, 0, keepSlots, keepPositions));
      }
      *cache = std::move(grown);
    }
  }
}

void KvCache::copySlot(const KvCache& from, int64_t fromSlot, int64_t toSlot, int64_t positions) {
  if (positions == 0) return;
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (bool keys : {true, false}) {
      const at::Tensor& source = keys ? from.keys_[i] : from.values_[i];
      const at::Tensor& target = keys ? keys_[i] : values_[i];
      if (device_.is_cpu()) {
        copyOnCpu(source, fromSlot, target, toSlot, positions);
      } else {
        prefix(target, toSlot, 1, positions).copy_(prefix(source, fromSlot, 1, positions));
      }
    }
  }
}

}  // namespace acoer
