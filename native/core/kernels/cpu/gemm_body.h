// Part of body.h: the matrix product with packed weights.

template <class T>
void pack(const T* w, int64_t ldw, int64_t columns, int64_t depth, T scale, T* packed) {
  constexpr int kW = kLanes<T>;
  for (int64_t first = 0; first < columns; first += kW) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int c = 0; c < kW; ++c) {
        *packed++ = first + c < columns ? w[(first + c) * ldw + k] * scale : T(0);
      }
    }
  }
}

template <class T>
void packTransposed(const T* w, int64_t ldw, int64_t columns, int64_t depth, T scale, T* packed) {
  constexpr int kW = kLanes<T>;
  for (int64_t first = 0; first < columns; first += kW) {
    for (int64_t k = 0; k < depth; ++k, packed += kW) {
      const T* row = w + k * ldw + first;
      if (columns - first >= kW) {
        store(packed, load(row) * scale);
        continue;
      }
      for (int c = 0; c < kW; ++c) packed[c] = first + c < columns ? row[c] * scale : T(0);
    }
  }
}

// kRows rows of y by kPanels panels, all sums in registers.
template <class T, bool kTransposed, int kRows, int kPanels>
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
      const T value = kTransposed ? x[k * ldx + r] : x[r * ldx + k];
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

// The columns from `first` on: in groups of kPanels panels, the rest in smaller ones.
template <class T, bool kTransposed, int kRows, int kPanels>
void gemmColumns(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
                 int64_t first, int64_t columns, int64_t depth, bool add) {
  constexpr int kW = kLanes<T>;
  for (; columns - first > (kPanels - 1) * kW; first += kPanels * kW) {
    for (int64_t r = 0; r < rows; r += kRows) {
      gemmBlock<T, kTransposed, kRows, kPanels>(x + r * (kTransposed ? 1 : ldx), ldx,
                                                packed + first * depth, y + r * ldy + first, ldy,
                                                columns - first, depth, add);
    }
  }
  if constexpr (kPanels > 1) {
    if (first < columns) {
      gemmColumns<T, kTransposed, kRows, kPanels - 1>(x, ldx, packed, y, ldy, rows, first, columns,
                                                      depth, add);
    }
  }
}

// In blocks of kRows rows, then of half as many. Fewer rows take more panels at a time: sums that
// do not depend on each other hide the latency of an addition.
template <class T, bool kTransposed, int kRows>
void gemmRows(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
              int64_t columns, int64_t depth, bool add) {
  constexpr int kPanels = kRows >= 4 ? 3 : 4;
  const int64_t whole = rows / kRows * kRows;
  gemmColumns<T, kTransposed, kRows, kPanels>(x, ldx, packed, y, ldy, whole, 0, columns, depth,
                                              add);
  if constexpr (kRows > 1) {
    if (whole < rows) {
      gemmRows<T, kTransposed, kRows / 2>(x + whole * (kTransposed ? 1 : ldx), ldx, packed,
                                          y + whole * ldy, ldy, rows - whole, columns, depth, add);
    }
  }
}

template <class T, bool kTransposed>
void gemm(const T* x, int64_t ldx, const T* packed, T* y, int64_t ldy, int64_t rows,
          int64_t columns, int64_t depth, bool add) {
  gemmRows<T, kTransposed, kRowBlock>(x, ldx, packed, y, ldy, rows, columns, depth, add);
}
