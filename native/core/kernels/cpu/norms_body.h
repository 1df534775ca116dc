// Part of body.h: RMS norm and rotation, a row at a time. Forward rounds to T after
// every operation, as the reference does, backward once.

template <class T>
ACOER_INLINE Acc<T> inverseRms(const T* x, int64_t width, double eps) {
  using A = Acc<T>;
  VecSum<A> sum;
  forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    const Vec<A> v = loadPart(x + i, left);
    sum.add(v * v);
  });
  const A mean = sum.total() / static_cast<A>(width) + static_cast<A>(eps);
  if constexpr (sizeof(A) == 4) return 1.0f / __builtin_sqrtf(mean);
  return static_cast<A>(1.0 / __builtin_sqrt(mean));
}

// out = rotate(x * scale * weight); no norm without a weight, no rotation without `cos`. RoPE in
// Hugging Face's half-split layout: (a, b) -> (a cos - b sin, b cos + a sin). C is T or Acc<T>.
template <class T, class C>
ACOER_INLINE void normAndRotate(const T* x, const T* weight, Acc<T> scale, const C* cos,
                                const C* sin, int64_t width, T* out) {
  using A = Acc<T>;
  const auto normed = [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    const Vec<A> v = loadPart(x + i, left);
    return weight ? rounded<T>(v * scale) * loadPart(weight + i, left) : v;
  };
  if (!cos) {
    forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
      storePart(out + i, normed(i, left), left);
    });
    return;
  }
  const int64_t half = width / 2;
  forEachPart<A>(half, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    const Vec<A> a = rounded<T>(normed(i, left)), b = rounded<T>(normed(half + i, left));
    const Vec<A> c = loadPart(cos + i, left), s = loadPart(sin + i, left);
    storePart(out + i, rounded<T>(a * c) - rounded<T>(b * s), left);
    storePart(out + half + i, rounded<T>(b * c) + rounded<T>(a * s), left);
  });
}

template <class T>
void rmsRotate(const RmsRotation<T>& f, const Rows<const T>& x, const Rows<T>& y,
               Acc<T>* inverseRmsOfRows, int64_t from, int64_t to) {
  for (int64_t t = from; t < to; ++t) {
    const T* cos = f.cos ? f.cos + t * x.width : nullptr;
    const T* sin = f.cos ? f.sin + t * x.width : nullptr;
    for (int64_t h = 0; h < x.heads; ++h) {
      const Acc<T> scale = f.weight ? inverseRms(x.row(t, h), x.width, f.eps) : 1;
      if (f.weight && inverseRmsOfRows) inverseRmsOfRows[t * x.heads + h] = scale;
      normAndRotate(x.row(t, h), f.weight, scale, cos, sin, x.width, y.row(t, h));
    }
  }
}

// Calls visit(i, left, g) for the parts of a row of dL/dy, turned back by the negative angle.
template <class T, class Visit>
ACOER_INLINE void forEachTurnedBack(const T* dy, const T* cos, const T* sin, int64_t width,
                                    const Visit& visit) {
  using A = Acc<T>;
  if (!cos) {
    forEachPart<A>(width, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
      visit(i, left, loadPart(dy + i, left));
    });
    return;
  }
  const int64_t half = width / 2;
  forEachPart<A>(half, [&](int64_t i, int64_t left) __attribute__((always_inline)) {
    const Vec<A> a = loadPart(dy + i, left), b = loadPart(dy + half + i, left);
    const Vec<A> c = loadPart(cos + i, left), s = loadPart(sin + i, left);
    visit(i, left, a * c + b * s);
    visit(half + i, left, b * c - a * s);
  });
}

// With n = x r and g = dL/dy w: dL/dx = r (g - n mean(g n)).
template <class T>
void rmsRotateBackward(const RmsRotation<T>& f, const RmsRotationTape<T>& tape,
                       const Rows<const T>& dy, const Rows<T>& dx, Acc<T>* dWeight, int64_t from,
                       int64_t to) {
  using A = Acc<T>;
  const int64_t width = dx.width;
  int64_t t = from, h = 0;
  for (int64_t row = from * dx.heads; row < to * dx.heads; ++row, ++h) {
    if (h == dx.heads) {
      h = 0;
      ++t;
    }
    const T *slope = dy.row(t, h), *x = tape.x.row(t, h);
    const T* cos = f.cos ? f.cos + t * width : nullptr;
    const T* sin = f.cos ? f.sin + t * width : nullptr;
    T* out = dx.row(t, h);
    if (!f.weight) {
      forEachTurnedBack(slope, cos, sin, width,
                        [&](int64_t i, int64_t left, Vec<A> g)
                            __attribute__((always_inline)) { storePart(out + i, g, left); });
      continue;
    }
    const A r = tape.inverseRms[row];
    Vec<A> sum = {};
    forEachTurnedBack(slope, cos, sin, width,
                      [&](int64_t i, int64_t left, Vec<A> g) __attribute__((always_inline)) {
                        const Vec<A> gx = g * loadPart(x + i, left);
                        if (dWeight)
                          storePart(dWeight + i, loadPart(dWeight + i, left) + gx * r, left);
                        sum += gx * loadPart(f.weight + i, left);
                      });
    const A mean = sumLanes<A>(sum) * r * r / static_cast<A>(width);
    const T* residual = tape.residual ? tape.residual + (out - dx.data) : nullptr;
    forEachTurnedBack(slope, cos, sin, width,
                      [&](int64_t i, int64_t left, Vec<A> g) __attribute__((always_inline)) {
                        const Vec<A> d =
                            r * (g * loadPart(f.weight + i, left) - loadPart(x + i, left) * mean);
                        storePart(out + i, residual ? d + loadPart(residual + i, left) : d, left);
                      });
  }
}
