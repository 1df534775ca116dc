// Part of a set of kernels: products with bf16 panels (bf16_products.h). A Tile computes the sums
// of a few rows; everything else here is the order in which it is called.

ACOER_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Eight 64-bit numbers of `a` (0 to 7) and `b` (8 to 15), of which instructions without 512-bit
// vectors take a part at a time.
typedef uint64_t Line __attribute__((vector_size(64)));
#ifdef __clang__
#define ACOER_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define ACOER_PICK(a, b, ...) __builtin_shuffle(a, b, Line{__VA_ARGS__})
#endif

// in: 8 pairs of columns of 16 rows, as panels hold them; out: the same of the transpose. Both are
// 8 x 8 blocks of 2 x 2 numbers; each is transposed, and the blocks change places.
ACOER_INLINE void turnBlock(const Bf16* in, Bf16* out) {
  constexpr uint64_t kDiagonal = 0xffff00000000ffffull, kUpper = 0x0000ffff00000000ull,
                     kLower = 0x00000000ffff0000ull;
  Line a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    __builtin_memcpy(&b[i], in + i * kPanelLine, sizeof(Line));
    a[i] = (b[i] & kDiagonal) | ((b[i] << 16) & kUpper) | ((b[i] >> 16) & kLower);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = ACOER_PICK(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[i + 1] = ACOER_PICK(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    const int i = k / 2 * 4 + k % 2;
    a[i] = ACOER_PICK(b[i], b[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    a[i + 2] = ACOER_PICK(b[i], b[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    b[i] = ACOER_PICK(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = ACOER_PICK(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) __builtin_memcpy(out + i * kPanelLine, &b[i], sizeof(Line));
}
#undef ACOER_PICK

// Panels [first, last) of a quantised W, pairs [pair, pair + pairs) of its columns.
inline void panelsOfQuantised(const ProductArgs& args, int64_t first, int64_t last, int64_t pair,
                              int64_t pairs, Bf16* rows, Bf16* out) {
  constexpr int64_t kRow = 2 * kBlockPairs;
  const int64_t count = smaller(2 * pairs, args.inputs - 2 * pair);
  // 16 pairs are turned at a time; those beyond the last are zero.
  const int64_t turned = (pairs + 15) / 16 * 16;
  for (int64_t p = first; p < last; ++p, out += kBlockPairs * kPanelLine) {
    for (int64_t r = 0; r < kPanelRows; ++r) {
      const int64_t row = p * kPanelRows + r, given = row < args.outputs ? count : 0;
      if (given > 0) dequantise(*args.quantised, row, 2 * pair, given, rows + r * kRow);
      for (int64_t i = given; i < 2 * turned; ++i) rows[r * kRow + i] = Bf16{0};
    }
    for (int64_t i = 0; i < turned; i += 16) panelOfRows(rows + 2 * i, out + i * kPanelLine);
  }
}

// Panels [first, last) of W^T, pairs [pair, pair + pairs) of its columns. Memory is read in the
// order in which it lies.
inline void turnPanels(const ProductArgs& args, int64_t first, int64_t last, int64_t pair,
                       int64_t pairs, Bf16* out) {
  const int64_t panels = (args.outputs + kPanelRows - 1) / kPanelRows;
  const int64_t lines = (args.inputs + 1) / 2;  // of a panel of W
  for (int64_t i = 0; i < pairs; i += 8, out += 8 * kPanelLine) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t given = smaller(8, lines - p * 8);
      const Bf16* in = args.w + panelPlace(panels, lines, (pair + i) / 8, p * 8);
      Bf16* const to = out + (p - first) * kBlockPairs * kPanelLine;
      if (given == 8) {
        turnBlock(in, to);
      } else {
        Bf16 block[8 * kPanelLine] = {};
        __builtin_memcpy(block, in, static_cast<std::size_t>(given * kPanelLine) * sizeof(Bf16));
        turnBlock(block, to);
      }
    }
  }
}

// Panels [first, last) of the columns of a plain W, pairs [pair, pair + pairs) of its rows.
inline void panelsOfRows(const ProductArgs& args, int64_t first, int64_t last, int64_t pair,
                         int64_t pairs, Bf16* out) {
  for (int64_t i = 0; i < pairs; ++i, out += kPanelLine) {
    const Bf16* even = args.w + 2 * (pair + i) * args.ldw;
    // Behind the last row x has a zero, so any numbers do.
    const Bf16* odd = even + (2 * (pair + i) + 1 < args.outputs ? args.ldw : 0);
    for (int64_t p = first; p < last; ++p) {
      const int64_t column = p * kPanelRows, given = smaller(kPanelRows, args.inputs - column);
      uint32_t line[kPanelRows] = {};
      const auto join = [&](int64_t count) {
        for (int64_t c = 0; c < count; ++c) {
          line[c] = even[column + c].bits | uint32_t{odd[column + c].bits} << 16;
        }
      };
      // A count that the compiler knows makes whole vectors.
      given == kPanelRows ? join(kPanelRows) : join(given);
      __builtin_memcpy(out + (p - first) * kBlockPairs * kPanelLine, line, sizeof(line));
    }
  }
}

// Panels [first, last) of the columns of a quantised W, pairs [pair, pair + pairs) of its rows.
inline void panelsOfQuantisedRows(const ProductArgs& args, int64_t first, int64_t last,
                                  int64_t pair, int64_t pairs, Bf16* rows, Bf16* out) {
  const int64_t begin = first * kPanelRows / kNf4Block * kNf4Block;
  const int64_t end =
      smaller((last * kPanelRows + kNf4Block - 1) / kNf4Block * kNf4Block, args.inputs);
  ProductArgs two = args;
  two.w = rows - begin;
  two.ldw = 2 * kBlockPairs;
  two.outputs = 2;
  for (int64_t i = 0; i < pairs; ++i, out += kPanelLine) {
    const int64_t row = 2 * (pair + i);
    dequantise(*args.quantised, row, begin, end - begin, rows);
    // Behind the last row x has a zero, so any numbers do.
    const int64_t odd = row + 1 < args.outputs ? row + 1 : row;
    dequantise(*args.quantised, odd, begin, end - begin, rows + two.ldw);
    panelsOfRows(two, first, last, 0, 1, out);
  }
}

template <class Y>
void writeSums(const ProductArgs& args, const float* sums, Y* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, sums += kBlockColumns, y += args.ldy) {
    forEachPart<float>(columns, [&](int64_t c, int64_t left) __attribute__((always_inline)) {
      const Vec<float> sum = args.scale * loadPart(sums + c, left);
      storePart(y + c, args.add ? loadPart(y + c, left) + sum : sum, left);
    });
  }
}

// A block of W: pair i of panel p starts at w + p * stride + i * kPanelLine. The tiles of a block
// share the work of bringing the next one, `ahead`, into the cache: each asks for its part of every
// panel, at `aheadStep` numbers for each pair that it multiplies.
struct PanelBlock {
  const Bf16* w;
  int64_t stride, panels, pairs;
  const Bf16* ahead;
  int64_t aheadStep;
  // Null, or the same in fp32: pair i of panel p is two vectors of 16 at (p * pairs + i) *
  // kPanelLine.
  const float* widened = nullptr;
};

// With fewer tiles, widening a block costs more than it saves them.
constexpr int64_t kWidenedTiles = 8;

// Splits the pairs of a block into fp32. A tile that does so itself spends a sixth of its time on
// it.
inline void widenBlock(PanelBlock& block, float* out) {
  block.widened = out;
  for (int64_t p = 0; p < block.panels; ++p) {
    const Bf16* w = block.w + p * block.stride;
    for (int64_t i = 0; i < block.pairs; ++i, w += kPanelLine, out += kPanelLine) {
      for (int64_t r = 0; r < kPanelRows; ++r) {
        out[r] = widen(w[2 * r]);
        out[kPanelRows + r] = widen(w[2 * r + 1]);
      }
    }
  }
}

// Brings part `index` of `parts` of the block behind this one into the cache.
inline void fetchPart(const PanelBlock& block, int64_t index, int64_t parts) {
  const int64_t lines = block.panels * block.pairs;
  for (int64_t i = index * lines / parts; i < (index + 1) * lines / parts; ++i) {
    __builtin_prefetch(block.w + (lines + i) * kPanelLine, 0, 2);
  }
}

// How W is multiplied: as its panels lie, by panels of its transpose, or by panels of plain rows;
// quantised, by panels of W or of its transpose.
enum class WeightForm { kPanels, kTurned, kPlain, kQuantised, kQuantisedTurned };

// Rows [row, row + rows) of columns [16 first, 16 last) of y.
template <class Tile, WeightForm kForm>
void multiplyBlock(const ProductArgs& args, int64_t row, int64_t rows, int64_t first, int64_t last,
                   ProductScratch* scratch) {
  constexpr bool kDirect = kForm == WeightForm::kPanels;
  constexpr bool kForward = kDirect || kForm == WeightForm::kQuantised;
  const int64_t depth = kForward ? args.inputs : args.outputs;
  const int64_t columns = kForward ? args.outputs : args.inputs;
  const int64_t allPairs = (depth + 1) / 2, allPanels = (columns + kPanelRows - 1) / kPanelRows;
  const int64_t tiles = (rows + Tile::kRows - 1) / Tile::kRows;
  const int64_t steps = (rows + tiles * Tile::kStep - 1) / (tiles * Tile::kStep);
  const int64_t tileRows = steps * Tile::kStep;
  auto* x = reinterpret_cast<typename Tile::X*>(scratch->x);
  for (int64_t pair = 0; pair < allPairs; pair += kBlockPairs) {
    const int64_t pairs = smaller(kBlockPairs, allPairs - pair);
    PanelBlock block{scratch->turned, kBlockPairs * kPanelLine, last - first,
                     pairs,           scratch->turned,          0};
    if constexpr (kForm == WeightForm::kTurned) {
      turnPanels(args, first, last, pair, pairs, scratch->turned);
    } else if constexpr (kForm == WeightForm::kPlain) {
      panelsOfRows(args, first, last, pair, pairs, scratch->turned);
    } else if constexpr (kForm == WeightForm::kQuantised) {
      panelsOfQuantised(args, first, last, pair, pairs, scratch->rows, scratch->turned);
    } else if constexpr (kForm == WeightForm::kQuantisedTurned) {
      panelsOfQuantisedRows(args, first, last, pair, pairs, scratch->rows, scratch->turned);
    } else {
      block.w = args.w + panelPlace(allPanels, allPairs, first, pair);
      block.stride = pairs * kPanelLine;
      // A single tile asks for half a block ahead, which is far enough.
      block.ahead = block.w + (tiles == 1 ? kBlockPanels / 2 : last - first) * block.stride;
      block.aheadStep = kPanelLine / tiles;
    }
    if (Tile::kWidens && tiles >= kWidenedTiles) widenBlock(block, scratch->widened);
    for (int64_t r = 0; r < rows; r += tileRows, block.ahead += pairs * block.aheadStep) {
      const int64_t count = smaller(tileRows, rows - r);
      if (kDirect && block.widened != nullptr) fetchPart(block, r / tileRows, tiles);
      Tile::take(args.x + (row + r) * args.ldx + 2 * pair, args.ldx, count,
                 smaller(2 * pairs, depth - 2 * pair), x);
      Tile::multiply(x, count, block, scratch->sums + r * kBlockColumns, pair > 0);
    }
  }
  const int64_t column = first * kPanelRows;
  const int64_t width = smaller(columns, last * kPanelRows) - column;
  const int64_t place = row * args.ldy + column;
  if (args.wide) {
    writeSums(args, scratch->sums, static_cast<float*>(args.y) + place, rows, width);
  } else {
    writeSums(args, scratch->sums, static_cast<Bf16*>(args.y) + place, rows, width);
  }
}

template <class Tile, WeightForm kForm>
void product(const ProductArgs& args, int64_t first, int64_t last, ProductScratch* scratch) {
  [[maybe_unused]] const typename Tile::Session session;
  // Blocks of about as many rows: each of them brings all of W, few rows as well as many.
  const int64_t blocks = (args.rows + kBlockRows - 1) / kBlockRows;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t row = block * args.rows / blocks;
    const int64_t rows = (block + 1) * args.rows / blocks - row;
    for (int64_t p = first; p < last;) {
      const int64_t end = smaller(last, (p / kBlockPanels + 1) * kBlockPanels);
      multiplyBlock<Tile, kForm>(args, row, rows, p, end, scratch);
      p = end;
    }
  }
}

template <class Tile>
constexpr ProductKernels productTable() {
  return {product<Tile, WeightForm::kPanels>, product<Tile, WeightForm::kTurned>,
          product<Tile, WeightForm::kPlain>, product<Tile, WeightForm::kQuantised>,
          product<Tile, WeightForm::kQuantisedTurned>};
}

// Sums in vector registers. A Step holds the type X of x and what is done with one pair.
template <class Step>
struct VectorTile {
  using X = typename Step::X;
  struct Session {};
  static constexpr int kLine = kPanelLine * 2 / kVectorBytes;  // vectors of a panel's line
  // Of 32 registers with AVX-512, of 16 elsewhere. With 12 of 16 GCC keeps some sums in memory,
  // which halves the speed.
  static constexpr int kMostSums = kLine == 1 ? 24 : kLine == 2 ? 10 : 8;
  static constexpr int kStep = 1, kRows = kLine == 1 ? 12 : kLine == 2 ? 5 : 1;
  static constexpr int64_t kStride = 2 * kBlockPairs;  // of the rows of x
  // Smaller vectors leave too few rows in a tile: reading twice the bytes would cost more.
  static constexpr bool kWidens = Step::kWidens && kVectorBytes == 64;

  static void take(const Bf16* x, int64_t ldx, int64_t rows, int64_t count, X* out) {
    for (int64_t r = 0; r < rows; ++r, x += ldx, out += kStride) {
      Step::take(x, count, out);
      if (count % 2 != 0) out[count] = X{};
    }
  }

  // Panels that are multiplied at once, so that enough sums are independent of each other.
  static constexpr int panelsFor(int rows) {
    const int fitting = kMostSums / (rows * kLine);
    return fitting >= 8 ? 8 : fitting >= 4 ? 4 : fitting >= 2 ? 2 : 1;
  }

  template <int kCount, int kVectors>
  static ACOER_INLINE void addPairs(Vec<float> (&acc)[kCount][kVectors], const X* x,
                                    const PanelBlock& block, int64_t panel) {
    const int64_t stride = block.stride, pairs = block.pairs, aheadStep = block.aheadStep;
    const Bf16 *w = block.w + panel * stride, *ahead = block.ahead + panel * stride;
    for (int64_t i = 0; i < pairs; ++i, w += kPanelLine, ahead += aheadStep, x += 2) {
      Vec<uint32_t> both[kVectors];
#pragma GCC unroll 8
      for (int p = 0; p < kVectors / kLine; ++p) __builtin_prefetch(ahead + p * stride, 0, 2);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) {
        __builtin_memcpy(&both[v], w + v / kLine * stride + v % kLine * 2 * kLanes<float>,
                         sizeof(both[v]));
      }
      Step::template add<kCount, kVectors>(acc, x, both);
    }
  }

  // kPanels panels from `panel` on.
  template <int kCount, int kPanels>
  static ACOER_INLINE void multiplyPanels(const X* x, const PanelBlock& block, int64_t panel,
                                          float* sums, bool add) {
    sums += panel * kPanelRows;
    constexpr int kW = kLanes<float>, kVectors = kPanels * kLine;
    Vec<float> acc[kCount][kVectors] = {};
    if (add) {
      for (int r = 0; r < kCount; ++r) {
        for (int v = 0; v < kVectors; ++v) acc[r][v] = load(sums + r * kBlockColumns + v * kW);
      }
    }
    if (kWidens && block.widened != nullptr) {
      if constexpr (kWidens) Step::addWidened(acc, x, block, panel);
    } else {
      addPairs(acc, x, block, panel);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) store(sums + r * kBlockColumns + v * kW, acc[r][v]);
    }
  }

  template <int kCount>
  static void multiplyRows(const X* x, const PanelBlock& block, float* sums, bool add) {
    constexpr int kPanels = panelsFor(kCount);
    int64_t p = 0;
    for (; p + kPanels <= block.panels; p += kPanels) {
      multiplyPanels<kCount, kPanels>(x, block, p, sums, add);
    }
    for (; p < block.panels; ++p) multiplyPanels<kCount, 1>(x, block, p, sums, add);
  }

  template <int kCount>
  static void choose(const X* x, int64_t rows, const PanelBlock& block, float* sums, bool add) {
    if (rows == kCount) return multiplyRows<kCount>(x, block, sums, add);
    if constexpr (kCount > 1) choose<kCount - 1>(x, rows, block, sums, add);
  }

  static void multiply(const X* x, int64_t rows, const PanelBlock& block, float* sums, bool add) {
    choose<kRows>(x, rows, block, sums, add);
  }
};

// Multiplies in fp32, the even column first.
struct WideningStep {
  using X = float;
  static constexpr bool kWidens = true;

  static void take(const Bf16* x, int64_t count, float* out) {
    for (int64_t k = 0; k < count; ++k) out[k] = widen(x[k]);
  }

  template <int kCount, int kVectors>
  static ACOER_INLINE void addColumn(Vec<float> (&acc)[kCount][kVectors], const float* x,
                                     const Vec<float> (&w)[kVectors]) {
    constexpr int64_t kStride = 2 * kBlockPairs;
#pragma GCC unroll 16
    for (int r = 0; r < kCount; ++r) {
      const Vec<float> value = splat(x[r * kStride]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) acc[r][v] += value * w[v];
    }
  }

  template <int kCount, int kVectors>
  static ACOER_INLINE void add(Vec<float> (&acc)[kCount][kVectors], const float* x,
                               const Vec<uint32_t> (&both)[kVectors]) {
    Vec<float> w[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) w[v] = (Vec<float>)(both[v] << 16);
    addColumn(acc, x, w);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) w[v] = (Vec<float>)(both[v] & 0xffff0000u);
    addColumn(acc, x + 1, w);
  }

  // All pairs of a block that is widened.
  template <int kCount, int kVectors>
  static ACOER_INLINE void addWidened(Vec<float> (&acc)[kCount][kVectors], const float* x,
                                      const PanelBlock& block, int64_t panel) {
    const int64_t stride = block.pairs * kPanelLine;
    const float* from = block.widened + panel * stride;
    for (int64_t column = 0; column < 2 * block.pairs; ++column, from += kPanelRows) {
      Vec<float> w[kVectors];
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) w[v] = load(from + v * stride);
      addColumn(acc, x + column, w);
    }
  }
};
