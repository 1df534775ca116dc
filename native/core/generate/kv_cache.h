// Keys and values of tokens in `slots` pieces of `positions` each: a prompt each, or one page of
// the sequences being decoded (kv_pages.h).
#pragma once

#include <array>

#include "model/model.h"

namespace acoer {

// What keys and values are kept in: vLLM's kv_cache_dtype.
enum class KvCacheDtype {
  kAuto,  // the model's type
  kInt8,  // codes from -127 to 127, and a scale in fp32 for each position and head
};
// The type of a cache's elements.
inline at::ScalarType elementType(KvCacheDtype kept, at::ScalarType ofModel) {
  return kept == KvCacheDtype::kInt8 ? at::kChar : ofModel;
}

// Codes of heads [..., K] and their scales [...]: scale = largest |x| / 127 in fp32, code = x /
// scale to the nearest, ties to even. Of a head with numbers that are not finite, so is the scale.
struct QuantizedHeads {
  at::Tensor codes, scales;
};
QuantizedHeads quantized(const at::Tensor& heads);
// codes * scales, rounded to `dtype`.
at::Tensor dequantized(const QuantizedHeads& heads, at::ScalarType dtype);

class KvCache {
 public:
  // `dtype`: of the elements; int8 has scales beside them. `tiledKeys`: keys in the layout of the
  // CPU kernels (kernels/cpu/kernels.h); positions are then multiples of 16. In both layouts,
  // [slots, J, ...], the elements of a position follow those of the position before it.
  KvCache(const ModelSpec& spec, at::Device device, at::ScalarType dtype, bool tiledKeys);

  // Bytes of one position of one sequence, over all layers.
  static int64_t bytesPerPosition(const ModelSpec& spec, at::ScalarType dtype);
  // The number of positions that a sequence of `positions` tokens occupies.
  static int64_t roundedPositions(int64_t positions);

  // Allocates new room and keeps the first keepPositions positions of the first keepSlots slots.
  void resize(int64_t slots, int64_t positions, int64_t keepSlots, int64_t keepPositions);
  // Copies `positions` positions from fromPosition on to a slot, from toPosition on, over all
  // layers; both are multiples of 16. `from` may be this cache.
  void copySlot(const KvCache& from, int64_t fromSlot, int64_t fromPosition, int64_t toSlot,
                int64_t positions, int64_t toPosition = 0);

  int64_t slots() const { return slots_; }
  int64_t positions() const { return positions_; }
  bool isQuantized() const { return dtype_ == at::kChar; }
  // [S, J, L, K], or [S, J, L / 16, K, 16] when tiled.
  const at::Tensor& keys(int64_t layer) const { return part(kKeys, layer); }
  const at::Tensor& values(int64_t layer) const { return part(kValues, layer); }
  // [S, J, L], fp32: what a position's keys or values are multiplied by. Undefined unless the cache
  // is quantised.
  const at::Tensor& keyScales(int64_t layer) const { return part(kKeyScales, layer); }
  const at::Tensor& valueScales(int64_t layer) const { return part(kValueScales, layer); }

 private:
  enum Part { kKeys, kValues, kKeyScales, kValueScales, kParts };
  const at::Tensor& part(Part part, int64_t layer) const {
    return parts_[part][static_cast<size_t>(layer)];
  }
  at::Tensor make(Part part) const;
  int64_t parts() const { return isQuantized() ? kParts : kKeyScales; }

  int64_t layers_, kvHeads_, headDim_;
  at::Device device_;
  at::ScalarType dtype_;
  bool tiledKeys_;
  int64_t slots_ = 0;
  int64_t positions_ = 0;
  std::array<std::vector<at::Tensor>, kParts> parts_;  // of each layer
};

// Where scales begin; null in a cache without.
inline float* scalesOf(const at::Tensor& scales_SJL) {
  return scales_SJL.defined() ? scales_SJL.data_ptr<float>() : nullptr;
}

}  // namespace acoer
