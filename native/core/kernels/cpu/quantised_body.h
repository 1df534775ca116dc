// Part of a set of kernels: rows of quantised weights (quantised.h), and panels of them.

// The magnitude of block `block` of row `row`. The product is rounded before it is added to: what
// the assembler might do with its bits keeps compilers from joining the two.
inline float nf4Magnitude(const QuantisedWeight& w, const Nf4Part& part, int64_t row,
                          int64_t block) {
  const int64_t blocks = w.inputs / kNf4Block;
  const int64_t group = part.firstGroup + ((row - part.firstRow) * blocks + block) / kNf4Group;
  const float scaled = w.map[w.scales[row * blocks + block]] * w.groups[group];
  auto bits = __builtin_bit_cast(uint32_t, scaled);
  asm("" : "+r"(bits));
  return __builtin_bit_cast(float, bits) + part.offset;
}

inline const Nf4Part& nf4PartOf(const QuantisedWeight& w, int64_t row) {
  int64_t p = w.partCount - 1;
  while (p > 0 && w.parts[p].firstRow > row) --p;
  return w.parts[p];
}

// 64 weights of which `values` holds the 16 that they may be.
template <class T>
ACOER_INLINE void nf4Pick(const uint8_t* codes, const T* values, T* out) {
  for (int64_t i = 0; i < kNf4Block / 2; ++i) {
    out[2 * i] = values[codes[i] >> 4];
    out[2 * i + 1] = values[codes[i] & 15];
  }
}

// Clang shuffles by constants only, and has the plain loop.
#ifndef __clang__
typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef uint16_t Halves __attribute__((vector_size(16)));

// The low and the high bytes of 16 bf16 are looked up apart, which instructions with 16 bytes do.
ACOER_INLINE void nf4Pick(const uint8_t* codes, const Bf16* values, Bf16* out) {
  constexpr Bytes kLowBytes = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  constexpr Bytes kFirst = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr Halves kFirstHalves = {0, 8, 1, 9, 2, 10, 3, 11};
  Bytes a, b;
  __builtin_memcpy(&a, values, sizeof(a));
  __builtin_memcpy(&b, values + 8, sizeof(b));
  const Bytes low = __builtin_shuffle(a, b, kLowBytes);
  const Bytes high = __builtin_shuffle(a, b, kLowBytes + 1);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i, codes += 16, out += 32) {
    Bytes both;
    __builtin_memcpy(&both, codes, sizeof(both));
    const Bytes even = both >> 4, odd = both & 15;
    const Bytes evenLow = __builtin_shuffle(low, even), evenHigh = __builtin_shuffle(high, even);
    const Bytes oddLow = __builtin_shuffle(low, odd), oddHigh = __builtin_shuffle(high, odd);
    const auto write = [&](Bytes place, Bf16* to) __attribute__((always_inline)) {
      const Halves evens = (Halves)__builtin_shuffle(evenLow, evenHigh, place);
      const Halves odds = (Halves)__builtin_shuffle(oddLow, oddHigh, place);
      const Halves first = __builtin_shuffle(evens, odds, kFirstHalves);
      const Halves second = __builtin_shuffle(evens, odds, kFirstHalves + 4);
      __builtin_memcpy(to, &first, sizeof(first));
      __builtin_memcpy(to + 8, &second, sizeof(second));
    };
    write(kFirst, out);
    write(kFirst + 8, out + 16);
  }
}
#endif

// What is looked up are products that are rounded already.
template <class T>
void dequantiseNf4(const QuantisedWeight& w, int64_t row, int64_t first, int64_t count, T* out) {
  constexpr int64_t kW = kLanes<float>;
  const Nf4Part& part = nf4PartOf(w, row);
  const uint8_t* codes = w.codes + (row * w.inputs + first) / 2;
  for (int64_t i = 0; i < count; i += kNf4Block, codes += kNf4Block / 2) {
    const float magnitude = nf4Magnitude(w, part, row, (first + i) / kNf4Block);
    alignas(64) T values[16];
    for (int64_t v = 0; v < 16; v += kW) storeNarrow(values + v, load(w.table + v) * magnitude);
    nf4Pick(codes, values, out + i);
  }
}

// A plain loop: GCC makes better vectors of it than of converted ones.
template <class T>
void dequantiseInt8(const QuantisedWeight& w, int64_t row, int64_t first, int64_t count, T* out) {
  constexpr float k127th = 1.0f / 127;
  const auto* codes = reinterpret_cast<const int8_t*>(w.codes) + row * w.inputs + first;
  const float magnitude = w.magnitudes[row];
  for (int64_t i = 0; i < count; ++i) {
    narrow(static_cast<float>(codes[i]) * magnitude * k127th, out[i]);
  }
}

template <class T>
void dequantise(const QuantisedWeight& w, int64_t row, int64_t first, int64_t count, T* out) {
  if (w.nf4) {
    dequantiseNf4(w, row, first, count, out);
  } else {
    dequantiseInt8(w, row, first, count, out);
  }
}

// The lanes of `a` that have the bit kBit change places with those of `b` that do not.
template <int kBit, int... kLane>
ACOER_INLINE void exchangeLanes(Vec<uint32_t>& a, Vec<uint32_t>& b,
                                std::integer_sequence<int, kLane...>) {
  constexpr int kW = kLanes<uint32_t>;
#ifdef __clang__
  const Vec<uint32_t> low =
      __builtin_shufflevector(a, b, (kLane & kBit ? kLane - kBit + kW : kLane)...);
  b = __builtin_shufflevector(a, b, (kLane & kBit ? kLane + kW : kLane + kBit)...);
#else
  const Vec<uint32_t> low =
      __builtin_shuffle(a, b, Vec<uint32_t>{(kLane & kBit ? kLane - kBit + kW : kLane)...});
  b = __builtin_shuffle(a, b, Vec<uint32_t>{(kLane & kBit ? kLane + kW : kLane + kBit)...});
#endif
  a = low;
}

// Transposes as many rows as a vector has lanes.
template <int kBit = kLanes<uint32_t> / 2>
ACOER_INLINE void transposeLanes(Vec<uint32_t> (&rows)[kLanes<uint32_t>]) {
  if constexpr (kBit > 0) {
#pragma GCC unroll 16
    for (int r = 0; r < kLanes<uint32_t>; ++r) {
      if ((r & kBit) != 0) continue;
      exchangeLanes<kBit>(rows[r], rows[r | kBit],
                          std::make_integer_sequence<int, kLanes<uint32_t>>{});
    }
    transposeLanes<kBit / 2>(rows);
  }
}

// in: 16 pairs of columns of 16 rows, kBlockPairs pairs apart; out: as a panel holds them.
ACOER_INLINE void panelOfRows(const Bf16* in, Bf16* out) {
  constexpr int kW = kLanes<uint32_t>;
  for (int64_t r = 0; r < kPanelRows; r += kW) {
    for (int64_t i = 0; i < kPanelRows; i += kW) {
      Vec<uint32_t> rows[kW];
#pragma GCC unroll 16
      for (int k = 0; k < kW; ++k) {
        __builtin_memcpy(&rows[k], in + (r + k) * 2 * kBlockPairs + 2 * i, sizeof(rows[k]));
      }
      transposeLanes(rows);
#pragma GCC unroll 16
      for (int k = 0; k < kW; ++k) {
        __builtin_memcpy(out + (i + k) * kPanelLine + 2 * r, &rows[k], sizeof(rows[k]));
      }
    }
  }
}
