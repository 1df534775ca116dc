// Part of a set of kernels: products with bf16 panels in AMX tiles. A tile has 16 rows of 64
// bytes: of x as it lies, of 16 pairs of a panel, or of 16 x 16 fp32 sums. Unit does what the
// processor's instructions do; the tests have one in plain C++.

template <class Unit>
struct AmxTile {
  using X = Bf16;
  static constexpr bool kWidens = false;
  using Session = typename Unit::Session;  // the tiles of this thread while it multiplies
  static constexpr int kStep = 16, kRows = 32;
  static constexpr int64_t kStride = 2 * kBlockPairs;  // of the rows of x
  static constexpr int64_t kTilePairs = 16, kTile = kTilePairs * kPanelLine;

  // Rows and columns beyond the end are zero, so that whole tiles can be multiplied.
  static void take(const Bf16* x, int64_t ldx, int64_t rows, int64_t count, Bf16* out) {
    const int64_t width = (count + 2 * kTilePairs - 1) / (2 * kTilePairs) * (2 * kTilePairs);
    const int64_t tiled = (rows + kStep - 1) / kStep * kStep;
    for (int64_t r = 0; r < tiled; ++r, x += ldx, out += kStride) {
      const int64_t taken = r < rows ? count : 0;
      __builtin_memcpy(out, x, static_cast<std::size_t>(taken) * sizeof(Bf16));
      for (int64_t k = taken; k < width; ++k) out[k] = Bf16{0};
    }
  }

  // 16 pairs of a panel from pair `i` on, through `spare` where the block ends before.
  static ACOER_INLINE const Bf16* tileAt(const Bf16* panel, int64_t i, int64_t pairs, Bf16* spare) {
    const Bf16* tile = panel + i * kPanelLine;
    if (i + kTilePairs <= pairs) return tile;
    const int64_t given = (pairs - i) * kPanelLine;
    __builtin_memcpy(spare, tile, static_cast<std::size_t>(given) * sizeof(Bf16));
    for (int64_t k = given; k < kTile; ++k) spare[k] = Bf16{0};
    return spare;
  }

  // Sums in tiles 0 to 3, x in 4 and 5, W in 6 and 7: kBands bands of 16 rows by kPanels panels.
  template <int kBands, int kPanels>
  static ACOER_INLINE void multiplyPanels(const Bf16* x, const PanelBlock& block, int64_t panel,
                                          float* sums, bool add) {
    const int64_t stride = block.stride, pairs = block.pairs;
    const Bf16 *w = block.w + panel * stride, *ahead = block.ahead + panel * stride;
    sums += panel * kPanelRows;
    constexpr int64_t kBand = kStep * kBlockColumns;
    alignas(64) Bf16 spare[kTile];
    const auto each = [&](auto visit) {
      visit.template operator()<0, 0>();
      if constexpr (kPanels == 2) visit.template operator()<0, 1>();
      if constexpr (kBands == 2) visit.template operator()<1, 0>();
      if constexpr (kBands == 2 && kPanels == 2) visit.template operator()<1, 1>();
    };
    each([&]<int kB, int kP>() {
      if (add) {
        Unit::template load<kB * 2 + kP>(sums + kB * kBand + kP * kPanelRows,
                                         kBlockColumns * sizeof(float));
      } else {
        Unit::template clear<kB * 2 + kP>();
      }
    });
    for (int64_t i = 0; i < pairs; i += kTilePairs) {
      Unit::template load<4>(x + 2 * i, kStride * sizeof(Bf16));
      if constexpr (kBands == 2) {
        Unit::template load<5>(x + kStep * kStride + 2 * i, kStride * sizeof(Bf16));
      }
      Unit::template load<6>(tileAt(w, i, pairs, spare), kPanelLine * sizeof(Bf16));
      if constexpr (kPanels == 2) {
        Unit::template load<7>(tileAt(w + stride, i, pairs, spare), kPanelLine * sizeof(Bf16));
      }
      each([&]<int kB, int kP>() { Unit::template multiply<kB * 2 + kP, 4 + kB, 6 + kP>(); });
      if constexpr (kBands == 1) {
        for (int64_t line = 0; line < kTilePairs; ++line) {
          for (int p = 0; p < kPanels; ++p) {
            __builtin_prefetch(ahead + p * stride + (i + line) * block.aheadStep, 0, 2);
          }
        }
      }
    }
    each([&]<int kB, int kP>() {
      Unit::template store<kB * 2 + kP>(sums + kB * kBand + kP * kPanelRows,
                                        kBlockColumns * sizeof(float));
    });
  }

  template <int kBands>
  static void multiplyBands(const Bf16* x, const PanelBlock& block, float* sums, bool add) {
    int64_t p = 0;
    for (; p + 2 <= block.panels; p += 2) multiplyPanels<kBands, 2>(x, block, p, sums, add);
    if (p < block.panels) multiplyPanels<kBands, 1>(x, block, p, sums, add);
  }

  static void multiply(const Bf16* x, int64_t rows, const PanelBlock& block, float* sums,
                       bool add) {
    if (rows > kStep) {
      multiplyBands<2>(x, block, sums, add);
    } else {
      multiplyBands<1>(x, block, sums, add);
    }
  }
};
