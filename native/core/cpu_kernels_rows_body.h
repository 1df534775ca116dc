// Part of cpu_kernels_body.h: norms, SwiGLU, rotation and writing the cache, one row at a time.

template <class T>
ACOER_INLINE Acc<T> inverseRms(const T* x, int64_t width, double eps) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  Vec<A> sums[2] = {};
  int64_t i = 0;
  for (; i + 2 * kW <= width; i += 2 * kW) {
    const Vec<A> a = load(x + i), b = load(x + i + kW);
    sums[0] += a * a;
    sums[1] += b * b;
  }
  A total = sumLanes<A>(sums[0] + sums[1]);
  for (; i < width; ++i) total += widen(x[i]) * widen(x[i]);
  const A mean = total / static_cast<A>(width) + static_cast<A>(eps);
  if constexpr (sizeof(A) == 4) return 1.0f / __builtin_sqrtf(mean);
  return static_cast<A>(1.0 / __builtin_sqrt(mean));
}

template <class T>
void rmsNorm(const T* x, const T* weight, T* out, int64_t rows, int64_t width, double eps) {
  for (int64_t r = 0; r < rows; ++r, x += width, out += width) {
    const Acc<T> scale = inverseRms(x, width, eps);
    for (int64_t i = 0; i < width; ++i) {
      narrow(rounded<T>(widen(x[i]) * scale) * widen(weight[i]), out[i]);
    }
  }
}

// At most a vector of elements.
template <class T>
ACOER_INLINE void swigluPart(const T* gate, const T* up, T* out, int count) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  A wide[kW] = {}, silu[kW];
  for (int c = 0; c < count; ++c) wide[c] = widen(gate[c]);
  const Vec<A> g = load(wide);
  store(silu, g / (static_cast<A>(1) + vectorExp<A>(-g)));
  for (int c = 0; c < count; ++c) narrow(rounded<T>(silu[c]) * widen(up[c]), out[c]);
}

template <class T>
void swiglu(const T* gateUp, T* out, int64_t rows, int64_t width) {
  constexpr int kW = kLanes<Acc<T>>;
  for (int64_t r = 0; r < rows; ++r, gateUp += 2 * width, out += width) {
    int64_t i = 0;
    for (; i + kW <= width; i += kW) swigluPart(gateUp + i, gateUp + width + i, out + i, kW);
    if (i == width) continue;
    swigluPart(gateUp + i, gateUp + width + i, out + i, static_cast<int>(width - i));
  }
}

// With s = sigmoid(gate): d(silu(gate))/dgate = s (1 + gate (1 - s)).
template <class T>
ACOER_INLINE void swigluBackwardPart(const T* gate, const T* up, const T* dy, T* dGate, T* dUp,
                                     int count) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  const A one = 1;
  A wide[kW] = {}, silu[kW], slope[kW];
  for (int c = 0; c < count; ++c) wide[c] = widen(gate[c]);
  const Vec<A> g = load(wide), s = one / (one + vectorExp<A>(-g));
  store(silu, g * s);
  store(slope, s * (one + g * (one - s)));
  for (int c = 0; c < count; ++c) {
    const A d = widen(dy[c]);
    narrow(rounded<T>(d * widen(up[c])) * slope[c], dGate[c]);
    narrow(rounded<T>(silu[c]) * d, dUp[c]);
  }
}

template <class T>
void swigluBackward(const T* gateUp, const T* dy, T* dGateUp, int64_t rows, int64_t width) {
  constexpr int kW = kLanes<Acc<T>>;
  for (int64_t r = 0; r < rows; ++r, gateUp += 2 * width, dGateUp += 2 * width, dy += width) {
    const auto part = [&](int64_t i, int count) __attribute__((always_inline)) {
      swigluBackwardPart(gateUp + i, gateUp + width + i, dy + i, dGateUp + i, dGateUp + width + i,
                         count);
    };
    int64_t i = 0;
    for (; i + kW <= width; i += kW) part(i, kW);
    if (i < width) part(i, static_cast<int>(width - i));
  }
}

// The norm of one head unless `weight` is null, then RoPE in Hugging Face's half-split layout: (a,
// b) -> (a cos - b sin, b cos + a sin), rounded to T after every operation, as in training.
template <class T>
ACOER_INLINE void normAndRotate(const T* head, const T* weight, const Acc<T>* cos,
                                const Acc<T>* sin, int64_t headDim, double eps, Acc<T>* normed,
                                Acc<T>* out) {
  if (weight) {
    const Acc<T> scale = inverseRms(head, headDim, eps);
    for (int64_t d = 0; d < headDim; ++d) {
      normed[d] = rounded<T>(rounded<T>(widen(head[d]) * scale) * widen(weight[d]));
    }
  } else {
    for (int64_t d = 0; d < headDim; ++d) normed[d] = widen(head[d]);
  }
  const int64_t half = headDim / 2;
  for (int64_t d = 0; d < half; ++d) {
    out[d] = rounded<T>(normed[d] * cos[d]) - rounded<T>(normed[d + half] * sin[d]);
    out[d + half] =
        rounded<T>(normed[d + half] * cos[d + half]) + rounded<T>(normed[d] * sin[d + half]);
  }
}

template <class T>
void writeHeads(const AttentionArgs<T>& args, int64_t begin, int64_t end) {
  using A = Acc<T>;
  const int64_t K = args.headDim, J = args.kvHeads;
  A* normed = static_cast<A*>(__builtin_alloca(2 * static_cast<std::size_t>(K) * sizeof(A)));
  A* rotated = normed + K;
  for (int64_t r = begin; r < end; ++r) {
    T* row = args.qkv_NE + r * (args.heads + 2 * J) * K;
    const int64_t position = args.position_N[r];
    const int64_t own = position - (args.shared_N ? args.shared_N[r].count : 0);
    const A* cos = args.cos_PK + position * K;
    const A* sin = args.sin_PK + position * K;
    for (int64_t h = 0; h < args.heads; ++h, row += K) {
      normAndRotate(row, args.qNorm_K, cos, sin, K, args.eps, normed, rotated);
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], row[d]);
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      normAndRotate(row, args.kNorm_K, cos, sin, K, args.eps, normed, rotated);
      const int64_t head = (args.slot_N[r] * J + j) * args.capacity * K;
      T* key = args.keys_SJLK + head + own / kKeyTile * kKeyTile * K + own % kKeyTile;
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], key[d * kKeyTile]);
      // The rotated keys also replace the projection: attention over long prompts reads them from
      // here.
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], row[d]);
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      T* value = args.values_SJLK + ((args.slot_N[r] * J + j) * args.capacity + own) * K;
      __builtin_memcpy(value, row, static_cast<std::size_t>(K) * sizeof(T));
    }
  }
}
