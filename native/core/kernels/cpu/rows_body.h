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

template <class T>
void writeHeads(const AttentionArgs<T>& args, int64_t begin, int64_t end) {
  using A = Acc<T>;
  const int64_t K = args.headDim, J = args.kvHeads;
  for (int64_t r = begin; r < end; ++r) {
    T* row = args.qkv_NE + r * (args.heads + 2 * J) * K;
    const int64_t position = args.position_N[r];
    const int64_t own = position - (args.shared_N ? args.shared_N[r].count : 0);
    const auto rotate = [&](const T* weight) __attribute__((always_inline)) {
      const A scale = weight ? inverseRms(row, K, args.eps) : 1;
      normAndRotate(row, weight, scale, args.cos_PK + position * K, args.sin_PK + position * K, K,
                    row);
    };
    const int64_t page = args.page_NT[r * args.pagesPerRow + own / args.pagePositions];
    const int64_t place = own % args.pagePositions;
    for (int64_t h = 0; h < args.heads; ++h, row += K) rotate(args.qNorm_K);
    for (int64_t j = 0; j < J; ++j, row += K) {
      // The rotated keys replace the projection: attention over long prompts reads them from here.
      rotate(args.kNorm_K);
      const int64_t head = (page * J + j) * args.pagePositions * K;
      T* key = args.keys_SJLK + head + place / kKeyTile * kKeyTile * K + place % kKeyTile;
      for (int64_t d = 0; d < K; ++d) key[d * kKeyTile] = row[d];
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      T* value = args.values_SJLK + ((page * J + j) * args.pagePositions + place) * K;
      __builtin_memcpy(value, row, static_cast<std::size_t>(K) * sizeof(T));
    }
  }
}
