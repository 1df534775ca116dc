#include "generate/kv_cache.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/kernels.h"

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

KvCache::KvCache(const ModelSpec& spec, at::Device device, at::ScalarType dtype, bool tiledKeys)
    : kvHeads_(spec.numKvHeads),
      headDim_(spec.headDim),
      device_(device),
      dtype_(dtype),
      tiledKeys_(tiledKeys),
      keys_(static_cast<size_t>(spec.numLayers)),
      values_(static_cast<size_t>(spec.numLayers)) {
  resize(0, 0, 0, 0);
}

int64_t KvCache::bytesPerPosition(const ModelSpec& spec, at::ScalarType dtype) {
  return 2 * spec.numLayers * spec.kvRows() * static_cast<int64_t>(c10::elementSize(dtype));
}

int64_t KvCache::roundedPositions(int64_t positions) {
  return (positions + kTile - 1) / kTile * kTile;
}

at::Tensor KvCache::make(bool keys) const {
  const auto options = at::device(device_).dtype(dtype_);
  // Masked attention multiplies unwritten positions by zero, so they must not be NaN.
  if (!tiledKeys_) return at::zeros({slots_, kvHeads_, positions_, headDim_}, options);
  if (!keys) return at::empty({slots_, kvHeads_, positions_, headDim_}, options);
  return at::empty({slots_, kvHeads_, positions_ / kTile, headDim_, kTile}, options);
}

void KvCache::resize(int64_t slots, int64_t positions, int64_t keepSlots, int64_t keepPositions) {
  slots_ = slots;
  positions_ = roundedPositions(positions);
  // Layer by layer, so that the old and the new room exist together for only one layer at a time.
  for (size_t i = 0; i < keys_.size(); ++i) {
    for (at::Tensor* cache : {&keys_[i], &values_[i]}) {
      at::Tensor grown = make(cache == &keys_[i]);
      if (keepSlots > 0 && keepPositions > 0) {
        range(grown, 0, keepSlots, 0, keepPositions)
            .copy_(range(*cache, 0, keepSlots, 0, keepPositions));
      }
      *cache = std::move(grown);
    }
  }
}

void KvCache::copySlot(const KvCache& from, int64_t fromSlot, int64_t fromPosition, int64_t toSlot,
                       int64_t positions, int64_t toPosition) {
  if (positions == 0) return;
  const auto copyLayers = [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      for (const auto caches : {&KvCache::keys_, &KvCache::values_}) {
        const at::Tensor &source = (from.*caches)[i], &target = (this->*caches)[i];
        if (device_.is_cpu()) {
          copyOnCpu(source, fromSlot, fromPosition, target, toSlot, toPosition, positions);
        } else {
          range(target, toSlot, 1, toPosition, positions)
              .copy_(range(source, fromSlot, 1, fromPosition, positions));
        }
      }
    }
  };
  if (!device_.is_cpu()) return copyLayers(0, std::ssize(keys_));
  const int64_t bytesOfLayer =
      2 * positions * kvHeads_ * headDim_ * static_cast<int64_t>(c10::elementSize(dtype_));
  at::parallel_for(0, std::ssize(keys_), std::max<int64_t>(1, kGrainBytes / bytesOfLayer),
                   copyLayers);
}

}  // namespace acoer
