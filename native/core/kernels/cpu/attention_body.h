// Part of body.h: attention of one new token per row over its cache.

// scores[g][0..16) = q[g] . key for each position of the tile, times its scale if the keys are
// quantised. The sums over d run in several chains, because a single one would wait for its own
// additions.
template <class A, class C, int kGroup>
ACOER_INLINE void scoreTile(const A* q_GK, const C* tile_Kx16, const float* scales_16,
                            int64_t headDim, A* scores, int64_t ldScores) {
  constexpr int kW = kLanes<A>, kVectors = kKeyTile / kW;
  constexpr int kChains = kVectors * kGroup >= 4 ? 2 : 4;
  Vec<A> sums[kChains][kGroup][kVectors] = {};
  int64_t d = 0;
  for (; d + kChains <= headDim; d += kChains) {
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const Vec<A> key = loadAs<A>(tile_Kx16 + (d + c) * kKeyTile + v * kW);
#pragma GCC unroll 4
        for (int g = 0; g < kGroup; ++g) sums[c][g][v] += q_GK[g * headDim + d + c] * key;
      }
    }
  }
  for (; d < headDim; ++d) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec<A> key = loadAs<A>(tile_Kx16 + d * kKeyTile + v * kW);
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
      if constexpr (std::is_same_v<C, int8_t>) total *= loadAs<A>(scales_16 + v * kW);
      store(scores + g * ldScores + v * kW, total);
    }
  }
}

// A sequence's keys and values of one head: the shared ones, then those of each of its pages. All
// runs but the last have whole tiles.
template <class C>
struct HeadRun {
  const C* keys;
  const C* values;
  const float* keyScales;
  const float* valueScales;
  int64_t count;
};
template <class C>
struct HeadRuns {
  const HeadRun<C>* first;
  const HeadRun<C>* last;
  int64_t count;  // of all runs
  const HeadRun<C>* begin() const { return first; }
  const HeadRun<C>* end() const { return last; }
};

// weights[l] *= the scale of value l.
template <class A, class C>
ACOER_INLINE void scaleWeights(A* weights, const HeadRuns<C>& head) {
  constexpr int kW = kLanes<A>;
  for (const HeadRun<C>& run : head) {
    int64_t l = 0;
    for (; l + kW <= run.count; l += kW) {
      store(weights + l, load(weights + l) * loadAs<A>(run.valueScales + l));
    }
    for (; l < run.count; ++l) weights[l] *= run.valueScales[l];
    weights += run.count;
  }
}

// out[g][first .. first + kVectors lanes) = sum over l of weights[g][l] * value[l]. The chains go
// on from one run into the next, so that the order of additions does not tell where the runs meet.
template <class T, class C, int kGroup, int kVectors>
ACOER_INLINE void sumValues(const Acc<T>* weights, int64_t ldWeights, const HeadRuns<C>& head,
                            int64_t headDim, int64_t first, const Acc<T>* scale, T* out_GK) {
  using A = Acc<T>;
  constexpr int kW = kLanes<A>;
  constexpr int kChains = kGroup * kVectors >= 8 ? 1 : 2;
  Vec<A> sums[kChains][kGroup][kVectors] = {};
  for (const HeadRun<C>& run : head) {
    const C* value = run.values + first;
    int64_t l = 0;
    for (; l + kChains <= run.count; l += kChains) {
#pragma GCC unroll 2
      for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const Vec<A> x = loadAs<A>(value + (l + c) * headDim + v * kW);
#pragma GCC unroll 4
          for (int g = 0; g < kGroup; ++g) sums[c][g][v] += weights[g * ldWeights + l + c] * x;
        }
      }
    }
    for (; l < run.count; ++l) {
      for (int v = 0; v < kVectors; ++v) {
        const Vec<A> x = loadAs<A>(value + l * headDim + v * kW);
        for (int g = 0; g < kGroup; ++g) sums[0][g][v] += weights[g * ldWeights + l] * x;
      }
    }
    weights += run.count;
  }
#pragma GCC unroll 4
  for (int g = 0; g < kGroup; ++g) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vec<A> total = sums[0][g][v];
      if (kChains == 2) total += sums[kChains - 1][g][v];
      storeNarrow(out_GK + g * headDim + first + v * kW, total * scale[g]);
    }
  }
}

// The rest of a head whose width is not a multiple of the vector's.
template <class T, class C>
void sumValuesTail(const Acc<T>* weights, const HeadRuns<C>& head, int64_t headDim, int64_t first,
                   Acc<T> scale, T* out_K) {
  for (int64_t d = first; d < headDim; ++d) {
    Acc<T> total = 0;
    const Acc<T>* weight = weights;
    for (const HeadRun<C>& run : head) {
      for (int64_t l = 0; l < run.count; ++l) {
        total += *weight++ * widen(run.values[l * headDim + d]);
      }
    }
    narrow(total * scale, out_K[d]);
  }
}

// exp(score - max) in place, and zeros behind them to the end of a vector, to which the array must
// extend; returns 1 / sum.
template <class A>
ACOER_INLINE A softmaxWeights(A* scores, int64_t count) {
  constexpr int kW = kLanes<A>;
  const int64_t whole = count / kW * kW;
  const auto inside = firstLanes<A>(count - whole);
  Vec<A> largest = splat(scores[0]);
  for (int64_t l = 0; l < whole; l += kW) {
    const Vec<A> s = load(scores + l);
    largest = s > largest ? s : largest;
  }
  if (whole < count) {
    const Vec<A> s = load(scores + whole);
    largest = inside && s > largest ? s : largest;
  }
  const A max = largestLane<A>(largest);
  VecSum<A> sum;
  for (int64_t l = 0; l < whole; l += kW) {
    const Vec<A> e = vectorExp<A>(load(scores + l) - max);
    store(scores + l, e);
    sum.add(e);
  }
  if (whole < count) {
    const Vec<A> e = inside ? vectorExp<A>(load(scores + whole) - max) : Vec<A>{};
    store(scores + whole, e);
    sum.add(e);
  }
  return static_cast<A>(1) / sum.total();
}

template <class T, class C, int kGroup>
void attendGroup(int64_t K, const T* query_GK, const HeadRuns<C>& head, Acc<T>* scratch,
                 int64_t ldScores, T* out_GK) {
  using A = Acc<T>;
  A* q_GK = scratch + kGroup * ldScores;
  const A scale = static_cast<A>(1.0 / __builtin_sqrt(static_cast<double>(K)));
  for (int64_t i = 0; i < kGroup * K; ++i) q_GK[i] = widen(query_GK[i]) * scale;
  A* scores = scratch;
  for (const HeadRun<C>& run : head) {
    for (int64_t l = 0; l < run.count; l += kKeyTile) {
      scoreTile<A, C, kGroup>(q_GK, run.keys + l * K, scalesAt(run.keyScales, l), K, scores + l,
                              ldScores);
    }
    scores += run.count;
  }
  A inverse[kGroup];
  for (int g = 0; g < kGroup; ++g) {
    inverse[g] = softmaxWeights<A>(scratch + g * ldScores, head.count);
    if constexpr (kIsQuantized<T, C>) scaleWeights(scratch + g * ldScores, head);
  }
  constexpr int kW = kLanes<A>;
  int64_t d = 0;
  for (; d + 4 * kW <= K; d += 4 * kW) {
    sumValues<T, C, kGroup, 4>(scratch, ldScores, head, K, d, inverse, out_GK);
  }
  for (; d + 2 * kW <= K; d += 2 * kW) {
    sumValues<T, C, kGroup, 2>(scratch, ldScores, head, K, d, inverse, out_GK);
  }
  for (; d + kW <= K; d += kW) {
    sumValues<T, C, kGroup, 1>(scratch, ldScores, head, K, d, inverse, out_GK);
  }
  if (d == K) return;
  for (int g = 0; g < kGroup; ++g) {
    sumValuesTail(scratch + g * ldScores, head, K, d, inverse[g], out_GK + g * K);
  }
}

// `runs`: room for one more than the pages that the row's positions take.
template <class T, class C>
ACOER_INLINE HeadRuns<C> runsOf(const AttentionArgs<T, C>& args, int64_t r, int64_t j,
                                HeadRun<C>* runs) {
  const int64_t K = args.headDim, L = args.pagePositions;
  HeadRun<C>* run = runs;
  int64_t left = args.position_N[r] + 1;
  if (args.shared_N && args.shared_N[r].count > 0) {
    const SharedPositions<C>& shared = args.shared_N[r];
    const int64_t head = j * shared.count;
    *run++ = {shared.keys_JLK + head * K, shared.values_JLK + head * K,
              scalesAt(shared.keyScales_JL, head), scalesAt(shared.valueScales_JL, head),
              shared.count};
    left -= shared.count;
  }
  for (const int32_t* page = args.page_NT + r * args.pagesPerRow; left > 0; ++page, left -= L) {
    const int64_t head = (*page * args.kvHeads + j) * L;
    *run++ = {args.keys_SJLK + head * K, args.values_SJLK + head * K,
              scalesAt(args.keyScales_SJL, head), scalesAt(args.valueScales_SJL, head),
              left < L ? left : L};
  }
  return {runs, run, args.position_N[r] + 1};
}

template <class T, class C>
void attend(const AttentionArgs<T, C>& args, int64_t begin, int64_t end) {
  using A = Acc<T>;
  const int64_t K = args.headDim, J = args.kvHeads, group = args.heads / J;
  constexpr int64_t kMaxGroup = 4;
  int64_t longest = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    longest = args.position_N[r] >= longest ? args.position_N[r] + 1 : longest;
  }
  const int64_t ldScores = (longest + kKeyTile - 1) / kKeyTile * kKeyTile;
  A* scratch = new A[static_cast<std::size_t>(kMaxGroup * (ldScores + K))];
  auto* runs = new HeadRun<C>[static_cast<std::size_t>(2 + longest / args.pagePositions)];
  for (int64_t item = begin; item < end; ++item) {
    const int64_t r = item % args.rows, j = item / args.rows;
    const HeadRuns<C> head = runsOf(args, r, j, runs);
    const T* q = args.qkv_NE + (r * (args.heads + 2 * J) + j * group) * K;
    T* out = args.out_NHK + (r * args.heads + j * group) * K;
    int64_t left = group;
    for (; left >= 4; left -= 4, q += 4 * K, out += 4 * K) {
      attendGroup<T, C, 4>(K, q, head, scratch, ldScores, out);
    }
    for (; left >= 2; left -= 2, q += 2 * K, out += 2 * K) {
      attendGroup<T, C, 2>(K, q, head, scratch, ldScores, out);
    }
    if (left == 1) attendGroup<T, C, 1>(K, q, head, scratch, ldScores, out);
  }
  delete[] runs;
  delete[] scratch;
}

// Causal attention of a block of rows in training: row r sees the first `count + r` scores.

// softmax of each row in place, zero from there to `width`.
template <class T>
void softmaxRows(T* scores, int64_t ld, int64_t rows, int64_t count, int64_t width) {
  for (int64_t r = 0; r < rows; ++r, scores += ld) {
    const T inverse = softmaxWeights<T>(scores, count + r);
    int64_t l = 0;
    for (; l < count + r; l += kLanes<T>) store(scores + l, load(scores + l) * inverse);
    for (; l < width; l += kLanes<T>) store(scores + l, Vec<T>{});
  }
}

// dL/dscores of each row from dL/dsoftmax, in place: softmax * (d - sum of softmax * d).
template <class T>
void softmaxRowsBackward(const T* softmax, T* d, int64_t ld, int64_t rows, int64_t count,
                         int64_t width) {
  constexpr int kW = kLanes<T>;
  for (int64_t r = 0; r < rows; ++r, softmax += ld, d += ld) {
    VecSum<T> sum;
    for (int64_t l = 0; l < count + r; l += kW) sum.add(load(softmax + l) * load(d + l));
    const T total = sum.total();
    int64_t l = 0;
    for (; l < count + r; l += kW) store(d + l, load(softmax + l) * (load(d + l) - total));
    for (; l < width; l += kW) store(d + l, Vec<T>{});
  }
}
