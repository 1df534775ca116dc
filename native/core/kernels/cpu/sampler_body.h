// Part of body.h: exponentials and sums over the logits of one token.

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
    max = largestLane<T>(largest);
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

// exp(z) in place of a vector of logits; adds it to `total` and z exp(z) to `weighted`.
template <class T>
ACOER_INLINE void addExps(T* logits, T max, T invTemperature, Vec<T>& total, Vec<T>& weighted) {
  const Vec<T> z = (load(logits) - max) * invTemperature;
  const Vec<T> e = vectorExp<T>(z);
  total += e;
  weighted += e * z;
  store(logits, e);
}

template <class T>
LogitSums<T> softmaxLogits(T* logits, int64_t count, double invTemperature, Bf16* narrowed) {
  constexpr int kW = kLanes<T>;
  LogitSums<T> sums;
  sums.max = largestLogit(logits, count);
  const T max = static_cast<T>(sums.max), inverseT = static_cast<T>(invTemperature);
  for (int64_t first = 0; first < count; first += kLogitBlock) {
    const int64_t end = count - first < kLogitBlock ? count : first + kLogitBlock;
    Vec<T> total = {}, weighted = {};
    int64_t i = first;
    for (; i + kW <= end; i += kW) addExps<T>(logits + i, max, inverseT, total, weighted);
    sums.sum += sumLanes<T>(total);
    sums.weighted += sumLanes<T>(weighted);
    for (; i < end; ++i) {
      T lanes[kW] = {logits[i]};
      Vec<T> one = {}, oneWeighted = {};
      addExps<T>(lanes, max, inverseT, one, oneWeighted);
      logits[i] = lanes[0];
      sums.sum += one[0];
      sums.weighted += oneWeighted[0];
    }
  }
  const T share = static_cast<T>(1 / sums.sum);
  if (narrowed == nullptr) {
    for (int64_t i = 0; i < count; ++i) logits[i] *= share;
  } else {
    for (int64_t i = 0; i < count; ++i) narrow(static_cast<float>(logits[i] * share), narrowed[i]);
  }
  return sums;
}
