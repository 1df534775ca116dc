// Included by one .cpp per instruction set, inside namespace acoer::kernels::<set>, after
// kVectorBytes and kRowBlock are set. GCC's vector types are used instead of intrinsics: the same
// text serves every set. No standard header may be included here: it would be compiled for the
// wrong set.

template <class A>
struct VectorOf {
  typedef A type __attribute__((vector_size(kVectorBytes)));
};
template <class A>
using Vec = typename VectorOf<A>::type;
template <class A>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));

// As many elements of a narrow type as a vector of Acc has lanes.
template <class Narrow, class A>
struct NarrowOf {
  typedef Narrow type __attribute__((vector_size(kVectorBytes / sizeof(A) * sizeof(Narrow))));
};

#define ACOER_INLINE inline __attribute__((always_inline))

ACOER_INLINE float widen(Bf16 x) { return __builtin_bit_cast(float, uint32_t{x.bits} << 16); }
ACOER_INLINE float widen(float x) { return x; }
ACOER_INLINE double widen(double x) { return x; }

// Round to nearest even; NaN stays NaN.
ACOER_INLINE void narrow(float x, Bf16& out) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  out.bits = static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
ACOER_INLINE void narrow(float x, float& out) { out = x; }
ACOER_INLINE void narrow(double x, double& out) { out = x; }

// x as T would hold it.
template <class T>
ACOER_INLINE Acc<T> rounded(Acc<T> x) {
  T narrowed;
  narrow(x, narrowed);
  return widen(narrowed);
}

template <class A>
ACOER_INLINE Vec<A> load(const A* p) {
  Vec<A> v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
ACOER_INLINE Vec<float> load(const Bf16* p) {
  typename NarrowOf<uint16_t, float>::type bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return (Vec<float>)(__builtin_convertvector(bits, Vec<uint32_t>) << 16);
}
template <class A>
ACOER_INLINE void store(A* p, Vec<A> v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
template <class A>
ACOER_INLINE Vec<A> splat(A x) {
  return x - Vec<A>{};
}
// In halves, as a tree.
template <class A>
ACOER_INLINE A sumLanes(Vec<A> v) {
  A lanes[kLanes<A>];
  store(lanes, v);
  for (int width = kLanes<A> / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

template <class A>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  using Int = int32_t;
  static constexpr float kLow = -87.0f, kHigh = 88.0f, kMagic = 12582912.0f;
  static constexpr float kLn2High = 0.693145751953125f, kLn2Low = 1.42860682030941723e-6f;
  static constexpr int kMantissa = 23, kBias = 127, kDegree = 7;
};
template <>
struct ExpConstants<double> {
  using Int = int64_t;
  static constexpr double kLow = -708.0, kHigh = 709.0, kMagic = 6755399441055744.0;
  static constexpr double kLn2High = 6.93147180369123816490e-01;
  static constexpr double kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kMantissa = 52, kBias = 1023, kDegree = 13;
};

constexpr double kInverseFactorial[] = {1.0,
                                        1.0,
                                        1.0 / 2,
                                        1.0 / 6,
                                        1.0 / 24,
                                        1.0 / 120,
                                        1.0 / 720,
                                        1.0 / 5040,
                                        1.0 / 40320,
                                        1.0 / 362880,
                                        1.0 / 3628800,
                                        1.0 / 39916800,
                                        1.0 / 479001600,
                                        1.0 / 6227020800.0};

// 2^n * exp(r) with |r| <= ln(2)/2 and exp(r) by its Taylor series: within 2 ulp. Arguments are
// clamped to what does not over- or underflow; NaN stays NaN.
template <class A>
ACOER_INLINE Vec<A> vectorExp(Vec<A> x) {
  using C = ExpConstants<A>;
  using Ints = Vec<typename C::Int>;
  x = x < splat(C::kLow) ? splat(C::kLow) : x;
  x = x > splat(C::kHigh) ? splat(C::kHigh) : x;
  const Vec<A> shifted = x * static_cast<A>(1.44269504088896340736) + C::kMagic;
  const Vec<A> n = shifted - C::kMagic;
  const Vec<A> r = (x - n * C::kLn2High) - n * C::kLn2Low;
  Vec<A> p = splat(static_cast<A>(kInverseFactorial[C::kDegree]));
#pragma GCC unroll 16
  for (int k = C::kDegree - 1; k >= 0; --k) p = p * r + static_cast<A>(kInverseFactorial[k]);
  const Ints exponent = (Ints)shifted - (Ints)splat(C::kMagic);
  return p * (Vec<A>)((exponent + C::kBias) << C::kMantissa);
}

// --- matrix product ----------------------------------------------------------------------------

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

// --- rows --------------------------------------------------------------------------------------

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

template <class T>
void swiglu(const T* gateUp, T* out, int64_t rows, int64_t width) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  for (int64_t r = 0; r < rows; ++r, gateUp += 2 * width, out += width) {
    for (int64_t i = 0; i < width; i += kW) {
      const int count = width - i < kW ? static_cast<int>(width - i) : kW;
      A gate[kW] = {}, silu[kW];
      for (int c = 0; c < count; ++c) gate[c] = widen(gateUp[i + c]);
      const Vec<A> g = load(gate);
      store(silu, g / (static_cast<A>(1) + vectorExp<A>(-g)));
      for (int c = 0; c < count; ++c) {
        narrow(rounded<T>(silu[c]) * widen(gateUp[width + i + c]), out[i + c]);
      }
    }
  }
}

// Norm over one head, then RoPE in Hugging Face's halves: (a, b) -> (a cos - b sin, b cos + a sin),
// with T's rounding after every operation, as the trainer computes it.
template <class T>
ACOER_INLINE void normAndRotate(const T* head, const T* weight, const Acc<T>* cos,
                                const Acc<T>* sin, int64_t headDim, double eps, Acc<T>* normed,
                                Acc<T>* out) {
  const Acc<T> scale = inverseRms(head, headDim, eps);
  for (int64_t d = 0; d < headDim; ++d) {
    normed[d] = rounded<T>(rounded<T>(widen(head[d]) * scale) * widen(weight[d]));
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
    const A* cos = args.cos_PK + position * K;
    const A* sin = args.sin_PK + position * K;
    for (int64_t h = 0; h < args.heads; ++h, row += K) {
      normAndRotate(row, args.qNorm_K, cos, sin, K, args.eps, normed, rotated);
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], row[d]);
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      normAndRotate(row, args.kNorm_K, cos, sin, K, args.eps, normed, rotated);
      const int64_t head = (args.slot_N[r] * J + j) * args.capacity * K;
      T* key = args.keys_SJLK + head + position / kKeyTile * kKeyTile * K + position % kKeyTile;
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], key[d * kKeyTile]);
      // The trainer sees rotated keys where the projection was; long prompts read them there.
      for (int64_t d = 0; d < K; ++d) narrow(rotated[d], row[d]);
    }
    for (int64_t j = 0; j < J; ++j, row += K) {
      T* value = args.values_SJLK + ((args.slot_N[r] * J + j) * args.capacity + position) * K;
      __builtin_memcpy(value, row, static_cast<std::size_t>(K) * sizeof(T));
    }
  }
}

// --- attention of one token --------------------------------------------------------------------

// scores[g][0..16) = q[g] . key of each of the tile's positions. Four chains of sums over d, since
// one would wait for its own additions.
template <class T, int kGroup>
ACOER_INLINE void scoreTile(const Acc<T>* q_GK, const T* tile_Kx16, int64_t headDim, Acc<T>* scores,
                            int64_t ldScores) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>, kVectors = kKeyTile / kW;
  constexpr int kChains = kVectors * kGroup >= 4 ? 2 : 4;
  Vec<A> sums[kChains][kGroup][kVectors] = {};
  int64_t d = 0;
  for (; d + kChains <= headDim; d += kChains) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Vec<A> key = load(tile_Kx16 + (d + c) * kKeyTile + v * kW);
#pragma GCC unroll 4
        for (int g = 0; g < kGroup; ++g) sums[c][g][v] += q_GK[g * headDim + d + c] * key;
      }
    }
  }
  for (; d < headDim; ++d) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec<A> key = load(tile_Kx16 + d * kKeyTile + v * kW);
      for (int g = 0; g < kGroup; ++g) sums[0][g][v] += q_GK[g * headDim + d] * key;
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < kGroup; ++g) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vec<A> total = sums[0][g][v];
#pragma GCC unroll 4
      for (int c = 1; c < kChains; ++c) total += sums[c][g][v];
      store(scores + g * ldScores + v * kW, total);
    }
  }
}

// out[g][first .. first + kVectors lanes) = sum over l of weights[g][l] * value[l].
template <class T, int kGroup, int kVectors>
ACOER_INLINE void sumValues(const Acc<T>* weights, int64_t ldWeights, const T* values_LK,
                            int64_t count, int64_t headDim, int64_t first, const Acc<T>* scale,
                            T* out_GK) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  constexpr int kChains = kGroup * kVectors >= 8 ? 1 : 2;
  Vec<A> sums[kChains][kGroup][kVectors] = {};
  const T* value = values_LK + first;
  int64_t l = 0;
  for (; l + kChains <= count; l += kChains) {
#pragma GCC unroll 2
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Vec<A> x = load(value + (l + c) * headDim + v * kW);
#pragma GCC unroll 4
        for (int g = 0; g < kGroup; ++g) sums[c][g][v] += weights[g * ldWeights + l + c] * x;
      }
    }
  }
  for (; l < count; ++l) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec<A> x = load(value + l * headDim + v * kW);
      for (int g = 0; g < kGroup; ++g) sums[0][g][v] += weights[g * ldWeights + l] * x;
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < kGroup; ++g) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vec<A> total = sums[0][g][v];
      if (kChains == 2) total += sums[kChains - 1][g][v];
      A lanes[kW];
      store(lanes, total * scale[g]);
      T* out = out_GK + g * headDim + first + v * kW;
      for (int i = 0; i < kW; ++i) narrow(lanes[i], out[i]);
    }
  }
}

// What is left of a head whose width is no multiple of the vector's.
template <class T>
void sumValuesTail(const Acc<T>* weights, const T* values_LK, int64_t count, int64_t headDim,
                   int64_t first, Acc<T> scale, T* out_K) {
  for (int64_t d = first; d < headDim; ++d) {
    Acc<T> total = 0;
    for (int64_t l = 0; l < count; ++l) total += weights[l] * widen(values_LK[l * headDim + d]);
    narrow(total * scale, out_K[d]);
  }
}

// exp(score - max) in place; returns 1 / sum. Lanes from count to the next tile must be readable.
template <class A>
ACOER_INLINE A softmaxWeights(A* scores, int64_t count) {
  constexpr int kW = kLanes<A>;
  const int64_t padded = (count + kKeyTile - 1) / kKeyTile * kKeyTile;
  for (int64_t l = count; l < padded; ++l) scores[l] = scores[0];
  Vec<A> largest = load(scores);
  for (int64_t l = kW; l < padded; l += kW) {
    const Vec<A> s = load(scores + l);
    largest = s > largest ? s : largest;
  }
  A lanes[kW], max;
  store(lanes, largest);
  max = lanes[0];
  for (int i = 1; i < kW; ++i) max = lanes[i] > max ? lanes[i] : max;
  for (int64_t l = 0; l < padded; l += kW) store(scores + l, vectorExp<A>(load(scores + l) - max));
  for (int64_t l = count; l < padded; ++l) scores[l] = 0;
  Vec<A> sums[2] = {};
  for (int64_t l = 0; l < padded; l += kW) sums[l / kW % 2] += load(scores + l);
  return static_cast<A>(1) / sumLanes<A>(sums[0] + sums[1]);
}

template <class T, int kGroup>
void attendGroup(const AttentionArgs<T>& args, const T* query_GK, const T* keys, const T* values,
                 int64_t count, Acc<T>* scratch, T* out_GK) {
  using A = Acc<T>;
  const int64_t K = args.headDim, ldScores = args.capacity;
  A* q_GK = scratch + kGroup * ldScores;
  const A scale = static_cast<A>(1.0 / __builtin_sqrt(static_cast<double>(K)));
  for (int64_t i = 0; i < kGroup * K; ++i) q_GK[i] = widen(query_GK[i]) * scale;
  for (int64_t l = 0; l < count; l += kKeyTile) {
    scoreTile<T, kGroup>(q_GK, keys + l * K, K, scratch + l, ldScores);
  }
  A inverse[kGroup];
  for (int g = 0; g < kGroup; ++g) inverse[g] = softmaxWeights<A>(scratch + g * ldScores, count);
  constexpr int kW = kLanes<A>;
  int64_t d = 0;
  for (; d + 4 * kW <= K; d += 4 * kW) {
    sumValues<T, kGroup, 4>(scratch, ldScores, values, count, K, d, inverse, out_GK);
  }
  for (; d + 2 * kW <= K; d += 2 * kW) {
    sumValues<T, kGroup, 2>(scratch, ldScores, values, count, K, d, inverse, out_GK);
  }
  for (; d + kW <= K; d += kW) {
    sumValues<T, kGroup, 1>(scratch, ldScores, values, count, K, d, inverse, out_GK);
  }
  if (d == K) return;
  for (int g = 0; g < kGroup; ++g) {
    sumValuesTail(scratch + g * ldScores, values, count, K, d, inverse[g], out_GK + g * K);
  }
}

template <class T>
void attend(const AttentionArgs<T>& args, int64_t begin, int64_t end) {
  using A = Acc<T>;
  const int64_t K = args.headDim, J = args.kvHeads, group = args.heads / J;
  constexpr int64_t kMaxGroup = 4;
  A* scratch = new A[static_cast<std::size_t>(kMaxGroup * (args.capacity + K))];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t r = item / J, j = item % J;
    const int64_t head = (args.slot_N[r] * J + j) * args.capacity * K;
    const T* keys = args.keys_SJLK + head;
    const T* values = args.values_SJLK + head;
    const int64_t count = args.position_N[r] + 1;
    const T* q = args.qkv_NE + (r * (args.heads + 2 * J) + j * group) * K;
    T* out = args.out_NHK + (r * args.heads + j * group) * K;
    int64_t left = group;
    for (; left >= 4; left -= 4, q += 4 * K, out += 4 * K) {
      attendGroup<T, 4>(args, q, keys, values, count, scratch, out);
    }
    for (; left >= 2; left -= 2, q += 2 * K, out += 2 * K) {
      attendGroup<T, 2>(args, q, keys, values, count, scratch, out);
    }
    if (left == 1) attendGroup<T, 1>(args, q, keys, values, count, scratch, out);
  }
  delete[] scratch;
}

// --- sampler -----------------------------------------------------------------------------------

// One vector of z = (logit - max) / temperature in double.
template <class T>
ACOER_INLINE Vec<double> scaledLogits(const T* logits, double max, double invTemperature) {
  typename NarrowOf<T, double>::type stored;
  __builtin_memcpy(&stored, logits, sizeof(stored));
  return (__builtin_convertvector(stored, Vec<double>) - max) * invTemperature;
}

template <class T>
void logitExps(const T* logits, int64_t count, double max, double invTemperature, double* out) {
  constexpr int kW = kLanes<double>;
  int64_t i = 0;
  for (; i + kW <= count; i += kW) {
    store(out + i, vectorExp<double>(scaledLogits(logits + i, max, invTemperature)));
  }
  if (i == count) return;
  T padded[kW] = {};
  double lanes[kW];
  for (int64_t c = i; c < count; ++c) padded[c - i] = logits[c];
  store(lanes, vectorExp<double>(scaledLogits(padded, max, invTemperature)));
  for (int64_t c = i; c < count; ++c) out[c] = lanes[c - i];
}

template <class T>
double largestLogit(const T* logits, int64_t count) {
  constexpr int kW = kLanes<T>;
  T max = logits[0];
  int64_t i = 0;
  if (count >= kW) {
    Vec<T> largest = load(logits);
    for (i = kW; i + kW <= count; i += kW) {
      const Vec<T> x = load(logits + i);
      largest = x > largest ? x : largest;
    }
    T lanes[kW];
    store(lanes, largest);
    for (int c = 0; c < kW; ++c) max = lanes[c] > max ? lanes[c] : max;
  }
  for (; i < count; ++i) max = logits[i] > max ? logits[i] : max;
  return static_cast<double>(max);
}

template <class T>
LogitSums<T> logitSums(const T* logits, int64_t count, double invTemperature, double* blockSums) {
  constexpr int kW = kLanes<double>;
  LogitSums<T> sums;
  sums.max = largestLogit(logits, count);
  for (int64_t first = 0; first < count; first += kLogitBlock) {
    const int64_t end = count - first < kLogitBlock ? count : first + kLogitBlock;
    Vec<double> total = {}, weighted = {};
    int64_t i = first;
    for (; i + kW <= end; i += kW) {
      const Vec<double> z = scaledLogits(logits + i, sums.max, invTemperature);
      const Vec<double> e = vectorExp<double>(z);
      total += e;
      weighted += e * z;
    }
    double blockTotal = sumLanes<double>(total), blockWeighted = sumLanes<double>(weighted);
    for (; i < end; ++i) {
      double e;
      logitExps(logits + i, 1, sums.max, invTemperature, &e);
      blockTotal += e;
      blockWeighted += e * ((static_cast<double>(logits[i]) - sums.max) * invTemperature);
    }
    *blockSums++ = blockTotal;
    sums.sum += blockTotal;
    sums.weighted += blockWeighted;
  }
  return sums;
}

template <class T>
constexpr RowKernels<T> rowTable() {
  return {rmsNorm<T>, writeHeads<T>, attend<T>, swiglu<T>};
}
template <class T>
constexpr MathKernels<T> mathTable() {
  return {kLanes<T>, pack<T>, gemm<T>, logitSums<T>, logitExps<T>};
}
constexpr KernelSet makeSet(const char* name) {
  return {name,
          rowTable<float>(),
          rowTable<double>(),
          rowTable<Bf16>(),
          mathTable<float>(),
          mathTable<double>()};
}

#undef ACOER_INLINE
