// The kernel between the qkv projection and attention, against float64 and against the roundings of
// rmsRotateByTensorOps and applyRope in native/core.
#include "kernels/rotate.cuh"

#include <array>

#include "check.h"

using namespace acoer::cuda;

namespace {

constexpr float kEps = 1e-6f;

struct Shape {
  int rows, heads, kvHeads, headDim;
  bool norms = true;
};

// What a head becomes: exact, by the kernel's roundings, and how far apart the two may lie. Without
// a weight it is only turned.
template <class T>
struct Head {
  std::vector<double> exact, bound;
  std::vector<T> rounded;
};

template <class T>
Head<T> referenceHead(const T* x, const T* weight, const T* cos, const T* sin, size_t K) {
  constexpr bool fp32 = std::is_same_v<T, float>;
  auto round = [](double value) { return emu::toDouble(emu::toStorage<T>(value)); };
  double squares = 0;
  for (size_t k = 0; k < K; ++k) squares += std::pow(emu::toDouble(x[k]), 2);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(K) + kEps);
  std::vector<double> exact(K), rounded(K);
  for (size_t k = 0; k < K; ++k) {
    if (weight == nullptr) {
      exact[k] = rounded[k] = emu::toDouble(x[k]);
      continue;
    }
    exact[k] = emu::toDouble(x[k]) * scale * emu::toDouble(weight[k]);
    rounded[k] = round(round(emu::toDouble(x[k]) * scale) * emu::toDouble(weight[k]));
  }
  Head<T> head;
  for (size_t k = 0; k < K; ++k) {
    const size_t other = (k + K / 2) % K;
    const double sign = k < K / 2 ? -1 : 1, c = emu::toDouble(cos[k]), s = emu::toDouble(sin[k]);
    head.exact.push_back(exact[k] * c + sign * exact[other] * s);
    // Four roundings to T on the way: normed, weighted, multiplied by the table, added. In fp32 the
    // sum of squares and the root add some of their own.
    head.bound.push_back((fp32 ? 2e-6 : 4.1 * emu::kRounding<T>)*(std::abs(exact[k] * c) +
                                                                  std::abs(exact[other] * s)));
    head.rounded.push_back(
        emu::toStorage<T>(round(rounded[k] * c) + round(sign * rounded[other] * s)));
  }
  return head;
}

// Codes of a head and their scale, from the rounded head that the cache would hold otherwise.
struct Codes {
  std::vector<int8_t> codes;
  float scale = 0;
};
template <class T>
Codes codesOf(const std::vector<T>& head) {
  double largest = 0;
  for (const T& x : head) largest = std::max(largest, std::abs(emu::toDouble(x)));
  Codes result;
  result.scale = std::max(static_cast<float>(largest) / 127.0f, 1e-30f);
  for (const T& x : head) {
    const float quotient = static_cast<float>(emu::toDouble(x)) / result.scale;
    result.codes.push_back(static_cast<int8_t>(std::nearbyint(quotient)));
  }
  return result;
}

// The input of one launch.
template <class T>
struct Rows {
  static constexpr int kCapacity = 40, kPositions = 48;
  Shape shape;
  size_t N, H, J, K, E;
  int pagePositions, pagesPerRow, pageCount;
  std::vector<T> qkv, qWeight, kWeight, cos, sin;
  std::vector<int32_t> pages, positions;
  const T *qNorm, *kNorm;

  Rows(const Shape& shape, uint64_t seed)
      : shape(shape),
        N(static_cast<size_t>(shape.rows)),
        H(static_cast<size_t>(shape.heads)),
        J(static_cast<size_t>(shape.kvHeads)),
        K(static_cast<size_t>(shape.headDim)),
        E((H + 2 * J) * K),
        // Each row in one page, or in up to three.
        pagePositions(seed % 4 < 2 ? kCapacity : 16),
        pagesPerRow((kCapacity + pagePositions - 1) / pagePositions),
        pageCount(shape.rows * pagesPerRow + 2),
        cos(kPositions * K),
        sin(kPositions * K),
        positions(N) {
    emu::Data data(seed);
    qkv = data.normals<T>(N * E, 0.2, 1.5);
    qWeight = data.normals<T>(K, 1, 0.3), kWeight = data.normals<T>(K, 1, 0.3);
    qNorm = shape.norms ? qWeight.data() : nullptr;
    kNorm = shape.norms ? kWeight.data() : nullptr;
    for (size_t i = 0; i < cos.size(); ++i) {
      const double k = static_cast<double>(i % K % (K / 2)), p = static_cast<double>(i / K);
      const double angle = p * std::pow(1e4, -2 * k / static_cast<double>(K));
      cos[i] = emu::toStorage<T>(std::cos(angle));
      sin[i] = emu::toStorage<T>(std::sin(angle));
    }
    pages = data.distinct(shape.rows * pagesPerRow, pageCount);
    for (size_t n = 0; n < N; ++n) positions[n] = static_cast<int32_t>(data.uniform() * kCapacity);
    positions[0] = kCapacity - 1;
    if (N > 2) positions[N / 2] = -1;  // a row that is not in use
  }
  Rows(const Rows&) = delete;

  std::string name() const {
    return "rotate of " + std::to_string(shape.rows) + " rows, " + std::to_string(shape.heads) +
           " and " + std::to_string(shape.kvHeads) + " heads of " + std::to_string(shape.headDim) +
           (shape.norms ? "" : " without norms");
  }
  // Positions of a cache over all heads.
  size_t places() const { return static_cast<size_t>(pageCount * pagePositions) * J; }
  size_t placeOf(size_t n, size_t j) const {
    const auto position = static_cast<size_t>(positions[n]), L = static_cast<size_t>(pagePositions);
    const size_t T_ = static_cast<size_t>(pagesPerRow);
    return (static_cast<size_t>(pages[n * T_ + position / L]) * J + j) * L + position % L;
  }
  // `to`: what is written, and its stride.
  RotateArgs args(RotateArgs to) const {
    to.qkv_NE = qkv.data();
    to.qNorm_K = qNorm;
    to.kNorm_K = kNorm;
    to.cos_PK = cos.data();
    to.sin_PK = sin.data();
    to.pages_NT = pages.data();
    to.positions_N = positions.data();
    to.heads = shape.heads;
    to.kvHeads = shape.kvHeads;
    to.headDim = shape.headDim;
    to.pagesPerRow = pagesPerRow;
    to.pagePositions = pagePositions;
    to.eps = kEps;
    return to;
  }
  void launch(void (*kernel)(RotateArgs), const RotateArgs& args) const {
    emu::launch(kernel,
                dim3(static_cast<unsigned>(shape.rows),
                     static_cast<unsigned>(rotateBlocks(shape.heads, shape.kvHeads))),
                dim3(kRotateThreads), 0, args);
  }
};

template <class T>
void checkRotate(const Shape& shape, bool inPlace, uint64_t seed) {
  constexpr bool fp32 = std::is_same_v<T, float>;
  Rows<T> rows(shape, seed);
  const std::string what = rows.name();
  const auto [N, H, J, K, E] = std::array{rows.N, rows.H, rows.J, rows.K, rows.E};
  std::vector<T> keys = emu::unwritten<T>(rows.places() * K), values = keys;
  std::vector<T> expectedKeys = keys, expectedValues = keys;
  std::vector<T> q = emu::unwritten<T>(N * H * K);
  std::vector<T>& qkv = rows.qkv;
  const std::vector<T> input = qkv;
  RotateArgs to{};
  to.q_NHK = inPlace ? qkv.data() : q.data();
  to.keys_SJLK = keys.data();
  to.values_SJLK = values.data();
  to.qStride = static_cast<int64_t>(inPlace ? E : H * K);
  rows.launch(fp32 ? acoer_rotate_fp32 : acoer_rotate_bf16, rows.args(to));

  emu::SameRoundings roundings;
  std::vector<T> expectedQ = emu::unwritten<T>(N * H * K), expectedQkv = input;
  // Compares a head and returns what was found, so that all the rest can be compared bit by bit.
  auto takeHead = [&](const Head<T>& expected, const T* found, T* to) {
    for (size_t k = 0; k < expected.exact.size(); ++k) {
      emu::expectNear(emu::toDouble(found[k]), expected.exact[k], expected.bound[k], what);
      if (!fp32) roundings.add(found[k], expected.rounded[k]);
      to[k] = found[k];
    }
  };
  for (size_t n = 0; n < N; ++n) {
    if (rows.positions[n] < 0) continue;
    const size_t angle = static_cast<size_t>(rows.positions[n]) * K;
    const T *c = &rows.cos[angle], *s = &rows.sin[angle], *row = &input[n * E];
    for (size_t h = 0; h < H; ++h) {
      const Head<T> head = referenceHead(row + h * K, rows.qNorm, c, s, K);
      if (inPlace) {
        takeHead(head, &qkv[n * E + h * K], &expectedQkv[n * E + h * K]);
      } else {
        takeHead(head, &q[(n * H + h) * K], &expectedQ[(n * H + h) * K]);
      }
    }
    for (size_t j = 0; j < J; ++j) {
      const size_t place = rows.placeOf(n, j) * K;
      takeHead(referenceHead(row + (H + j) * K, rows.kNorm, c, s, K), &keys[place],
               &expectedKeys[place]);
      std::copy_n(row + (H + J + j) * K, K, &expectedValues[place]);
    }
  }
  roundings.expect(what);
  // Nothing else was touched.
  emu::expectSame(keys, expectedKeys, what + ": keys");
  emu::expectSame(values, expectedValues, what + ": values");
  emu::expectSame(q, expectedQ, what + ": q");
  emu::expectSame(qkv, expectedQkv, what + ": qkv");
}

// A cache in int8: the codes of what the other kernel, which is compared above, leaves in a cache
// of bf16. One head is zero and one is not finite.
void checkCodes(const Shape& shape, uint64_t seed) {
  Rows<Bf16> rows(shape, seed);
  const std::string what = rows.name() + " in int8";
  const auto [N, H, J, K] = std::array{rows.N, rows.H, rows.J, rows.K};
  std::fill_n(&rows.qkv[H * K], K, emu::toStorage<Bf16>(0));
  rows.qkv[(H + J) * K + K - 1] = emu::toStorage<Bf16>(std::numeric_limits<double>::quiet_NaN());
  std::vector<Bf16> wide[2], q[2];
  std::vector<int8_t> codes[2], expected[2];
  std::vector<float> scales[2], expectedScales[2];
  for (int part = 0; part < 2; ++part) {
    wide[part] = emu::unwritten<Bf16>(rows.places() * K);
    q[part] = emu::unwritten<Bf16>(N * H * K);
    codes[part] = expected[part] = std::vector<int8_t>(rows.places() * K, -128);
    scales[part] = expectedScales[part] = emu::unwritten<float>(rows.places());
  }
  RotateArgs to{};
  to.qStride = static_cast<int64_t>(H * K);
  to.q_NHK = q[0].data();
  to.keys_SJLK = wide[0].data();
  to.values_SJLK = wide[1].data();
  rows.launch(acoer_rotate_bf16, rows.args(to));
  to.q_NHK = q[1].data();
  to.keys_SJLK = codes[0].data();
  to.values_SJLK = codes[1].data();
  to.keyScales_SJL = scales[0].data();
  to.valueScales_SJL = scales[1].data();
  rows.launch(acoer_rotate_bf16_int8, rows.args(to));
  emu::expectSame(q[1], q[0], what + ": q");
  for (size_t n = 0; n < N; ++n) {
    if (rows.positions[n] < 0) continue;
    for (size_t i = 0; i < 2 * J; ++i) {
      const size_t part = i / J, place = rows.placeOf(n, i % J);
      const Bf16* head = &wide[part][place * K];
      const Codes exact = codesOf(std::vector<Bf16>(head, head + K));
      const float found = scales[part][place];
      if (n == 0 && i == J) {
        if (!std::isnan(found))
          emu::fail(what + ": the scale of a NaN is " + std::to_string(found));
        // Its codes say nothing.
        std::copy_n(&codes[part][place * K], K, &expected[part][place * K]);
        expectedScales[part][place] = found;
        continue;
      }
      expectedScales[part][place] = exact.scale;
      std::copy_n(exact.codes.begin(), K, &expected[part][place * K]);
    }
  }
  for (const size_t part : {0, 1}) {
    const std::string which = what + (part == 0 ? ": keys" : ": values");
    emu::expectSame(codes[part], expected[part], which);
    emu::expectSame(scales[part], expectedScales[part], which + "' scales");
  }
}

template <class T>
void checkShapes() {
  emu::forEachSchedule([] {
    uint64_t seed = 1;
    for (const Shape& shape :
         {Shape{1, 2, 1, 64}, Shape{5, 4, 2, 64}, Shape{3, 7, 1, 96}, Shape{2, 5, 5, 96},
          Shape{3, 16, 8, 128}, Shape{4, 3, 1, 128}, Shape{5, 6, 1, 128, false},
          Shape{3, 4, 2, 64, false}, Shape{2, 3, 3, 96, false}}) {
      checkRotate<T>(shape, false, seed++);
      checkRotate<T>(shape, true, seed++);
    }
  });
}

}  // namespace

EMU_TEST(rotate_bf16) { checkShapes<Bf16>(); }
EMU_TEST(rotate_fp32) { checkShapes<float>(); }
EMU_TEST(rotate_int8) {
  emu::forEachSchedule([] {
    uint64_t seed = 1;
    for (const Shape& shape :
         {Shape{1, 2, 1, 64}, Shape{5, 4, 2, 64}, Shape{3, 7, 1, 96}, Shape{2, 5, 5, 96},
          Shape{3, 16, 8, 128}, Shape{4, 3, 1, 128, false}, Shape{2, 3, 3, 96, false}}) {
      checkCodes(shape, seed++);
    }
  });
}
EMU_TEST(rotate_any_row_count) {
  for (int rows = 1; rows <= 17; ++rows) {
    checkRotate<Bf16>({rows, 4, 2, 128}, rows % 2 == 0, static_cast<uint64_t>(rows));
  }
}
