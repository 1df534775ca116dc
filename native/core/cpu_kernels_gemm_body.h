// Part of cpu_kernels_body.h: the matrix product with packed weights.

template <class T>
void pack(const T* w, int64_t ldw, int64_t columns, int64_t depth, T* packed) {
  constexpr int kW = kLanes<T>;
  for (int64_t first = 0; first < columns; first += kW) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int c = 0; c < kW; ++c) {
        *packed++ = first + c < columns ? w[(first + c) * ldw + k] : T(0);
      }
    }
  }
}

// kRows rows of y by kPanels panels, all sums in registers.
template <class T, int kRows, int kPanels>
ACOER_INLINE void gemmBlock(const T* x, int64_t ldx, const T* panels, T* y, int64_t ldy,
                            int64_t columns, int64_t depth, bool add) {
  constexpr int kW = kLanes<T>;
  Vec<T> sums[kRows][kPanels] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Vec<T> w[kPanels];
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) w[p] = load(panels + (p * depth + k) * kW);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const T value = x[r * ldx + k];
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) sums[r][p] += value * w[p];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      T* out = y + r * ldy + p * kW;
      const int64_t left = columns - p * kW;
      if (left >= kW) {
        store(out, add ? load(out) + sums[r][p] : sums[r][p]);
        continue;
      }
      T lanes[kW];
      store(lanes, sums[r][p]);
      for (int64_t c = 0; c < left; ++c) out[c] = add ? out[c] + lanes[c] : lanes[c];
    }
  }
}

template <class T, int kRows, int kPanels>
void gemmRows(const T* x, int64_t ldx, const T* panels, T* y, int64_t ldy, int64_t rows,
              int64_t columns, int64_t depth, bool add) {
  for (; rows >= kRows; rows -= kRows, x += kRows * ldx, y += kRows * ldy) {
    gemmBlock<T, kRows, kPanels>(x, ldx, panels, y, ldy, columns, depth, add);
  }
  if constexpr (kRows > 1) {
    if (rows > 0) {
      gemmRows<T, kRows / 2, kPanels>(x, ldx, panels, y, ldy, rows, columns, depth, add);
    }
  }
}

template <class T>
void gemm(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
          int64_t columns, int64_t depth, bool add) {
  constexpr int kW = kLanes<T>;
  int64_t first = 0;
  for (; columns - first > kW; first += 2 * kW) {
    gemmRows<T, kRowBlock, 2>(x, ldx, packed + first * depth, y + first, ldy, rows, columns - first,
                              depth, add);
  }
  if (first < columns) {
    gemmRows<T, kRowBlock, 1>(x, ldx, packed + first * depth, y + first, ldy, rows, columns - first,
                              depth, add);
  }
}
