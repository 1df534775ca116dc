// Keys and values of tokens in `slots` pieces of `positions` each: a prompt each, or one page of
// the sequences being decoded (kv_pages.h).
#pragma once

#include "model/model.h"

namespace acoer {

class KvCache {
 public:
  // `tiledKeys`: keys in the layout of the CPU kernels (kernels/cpu/kernels.h); positions are then
  // multiples of 16. In both layouts, [slots, J, ...], the elements of a position follow those of
  // the position before it.
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
  // [S, J, L, K], or [S, J, L / 16, K, 16] when tiled.
  const at::Tensor& keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }
  const at::Tensor& values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }

 private:
  at::Tensor make(bool keys) const;

  int64_t kvHeads_, headDim_;
  at::Device device_;
  at::ScalarType dtype_;
  bool tiledKeys_;
  int64_t slots_ = 0;
  int64_t positions_ = 0;
  std::vector<at::Tensor> keys_;
  std::vector<at::Tensor> values_;
};

}  // namespace acoer
