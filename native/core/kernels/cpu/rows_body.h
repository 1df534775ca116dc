// Part of body.h: SwiGLU and writing the cache, a row at a time.

template <class T>
void swiglu(const T* gateUp, T* out, int64_t rows, int64_t width) {
  using A = Acc<T>;
  for (int64_t r = 0; r < rows; ++r, gateUp += 2 * width, out += width) {
    forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
      const Vec<A> g = loadPart(gateUp + i, left), up = loadPart(gateUp + width + i, left);
      const Vec<A> silu = g / (static_cast<A>(1) + vectorExp<A>(-g));
      storePart(out + i, rounded<T>(silu) * up, left);
    });
  }
}

// With s = sigmoid(gate): d(silu(gate))/dgate = s (1 + gate (1 - s)).
template <class T>
void swigluBackward(const T* gateUp, const T* dy, T* dGateUp, int64_t rows, int64_t width) {
  using A = Acc<T>;
  const A one = 1;
  for (int64_t r = 0; r < rows; ++r, gateUp += 2 * width, dGateUp += 2 * width, dy += width) {
    forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
      const Vec<A> g = loadPart(gateUp + i, left), up = loadPart(gateUp + width + i, left);
      const Vec<A> d = loadPart(dy + i, left), s = one / (one + vectorExp<A>(-g));
      storePart(dGateUp + i, rounded<T>(d * up) * (s * (one + g * (one - s))), left);
      storePart(dGateUp + width + i, rounded<T>(g * s) * d, left);
    });
  }
}

// The largest |x| of a row; NaN if one is.
template <class T>
ACOER_INLINE Acc<T> largestOf(const T* row, int64_t width) {
  using A = Acc<T>;
  Vec<A> largest = {};
  forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    const Vec<A> x = loadPart(row + i, left), size = x < Vec<A>{} ? -x : x;
    largest = (size > largest) | (size != size) ? size : largest;
  });
  A top = 0;
  for (int c = 0; c < kLanes<A>; ++c) {
    top = largest[c] > top || largest[c] != largest[c] ? largest[c] : top;
  }
  return top;
}

// Writes the codes of a head, kStride elements apart, and returns their scale, largest |x| / 127: a
// code is x / scale to the nearest, ties to even. The row becomes what is read back. Of a row with
// numbers that are not finite, so is the scale, and whoever reads it gets NaN.
template <class T, int kStride>
ACOER_INLINE float quantizeHead(T* row, int64_t width, int8_t* codes) {
  using A = Acc<T>;
  using C = ExpConstants<A>;
  const auto exact = static_cast<float>(largestOf(row, width) / 127);
  const float scale = exact < kLeastScale ? kLeastScale : exact;
  forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    // The sum's unit is 1: its mantissa ends with the code.
    const Vec<A> shifted = loadPart(row + i, left) / static_cast<A>(scale) + C::kMagic;
    typename C::Int bits[kLanes<A>];
    __builtin_memcpy(bits, &shifted, sizeof(bits));
    for (int64_t c = 0; c < kLanes<A> && c < left; ++c) {
      codes[(i + c) * kStride] = static_cast<int8_t>(bits[c]);
    }
    storePart(row + i, (shifted - C::kMagic) * static_cast<A>(scale), left);
  });
  return scale;
}

// Null in a cache without scales.
template <class F>
ACOER_INLINE F* scalesAt(F* scales, int64_t position) {
  return scales == nullptr ? nullptr : scales + position;
}

// A head's keys (kStride kKeyTile) or values (1) of one position into the cache.
template <class T, int kStride>
ACOER_INLINE void writeHead(T* row, int64_t width, T* to, float* /*scale*/) {
  if constexpr (kStride == 1) {
    __builtin_memcpy(to, row, static_cast<std::size_t>(width) * sizeof(T));
  } else {
    for (int64_t d = 0; d < width; ++d) to[d * kStride] = row[d];
  }
}
template <class T, int kStride>
ACOER_INLINE void writeHead(T* row, int64_t width, int8_t* to, float* scale) {
  *scale = quantizeHead<T, kStride>(row, width, to);
}

template <class T, class C>
void writeHeads(const AttentionArgs<T, C>& args, int64_t begin, int64_t end) {
  using A = Acc<T>;
  const int64_t K = args.headDim, J = args.kvHeads, L = args.pagePositions;
  for (int64_t r = begin; r < end; ++r) {
    T* row = args.qkv_NE + r * (args.heads + 2 * J) * K;
    const int64_t position = args.position_N[r];
    const int64_t own = position - (args.shared_N ? args.shared_N[r].count : 0);
    const auto rotate = [&](const T* weight) __attribute__((always_inline)) {
      const A scale = weight ? inverseRms(row, K, args.eps) : 1;
      normAndRotate(row, weight, scale, args.cos_PK + position * K, args.sin_PK + position * K, K,
                    row);
    };
    const int64_t page = args.page_NT[r * args.pagesPerRow + own / L], place = own % L;
    for (int64_t h = 0; h < args.heads; ++h, row += K) rotate(args.qNorm_K);
    for (int64_t j = 0; j < J; ++j, row += K) {
      // What the cache holds replaces the projection: attention over long prompts reads it here.
      rotate(args.kNorm_K);
      const int64_t head = (page * J + j) * L;
      C* key = args.keys_SJLK + head * K + place / kKeyTile * kKeyTile * K + place % kKeyTile;
      writeHead<T, kKeyTile>(row, K, key, scalesAt(args.keyScales_SJL, head + place));
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      const int64_t at = (page * J + j) * L + place;
      writeHead<T, 1>(row, K, args.values_SJLK + at * K, scalesAt(args.valueScales_SJL, at));
    }
  }
}
