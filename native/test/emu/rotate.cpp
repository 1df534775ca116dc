// The kernel between the qkv projection and attention, against float64 and against the roundings of
// rmsRotateByTensorOps and applyRope in native/core.
#include "kernels/rotate.cuh"

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

template <class T>
void checkRotate(const Shape& shape, bool inPlace, uint64_t seed) {
  const std::string what = "rotate of " + std::to_string(shape.rows) + " rows, " +
                           std::to_string(shape.heads) + " and " + std::to_string(shape.kvHeads) +
                           " heads of " + std::to_string(shape.headDim) +
                           (shape.norms ? "" : " without norms");
  constexpr bool fp32 = std::is_same_v<T, float>;
  constexpr int kCapacity = 40, kPositions = 48;
  const auto N = static_cast<size_t>(shape.rows), H = static_cast<size_t>(shape.heads),
             J = static_cast<size_t>(shape.kvHeads), K = static_cast<size_t>(shape.headDim),
             E = (H + 2 * J) * K;
  // Each row in one page, or in up to three.
  const int pagePositions = seed % 4 < 2 ? kCapacity : 16;
  const int pagesPerRow = (kCapacity + pagePositions - 1) / pagePositions;
  const int pageCount = shape.rows * pagesPerRow + 2;
  emu::Data data(seed);
  std::vector<T> qkv = data.normals<T>(N * E, 0.2, 1.5);
  const std::vector<T> qWeight = data.normals<T>(K, 1, 0.3), kWeight = data.normals<T>(K, 1, 0.3);
  const T* qNorm = shape.norms ? qWeight.data() : nullptr;
  const T* kNorm = shape.norms ? kWeight.data() : nullptr;
  std::vector<T> cos(kPositions * K), sin(kPositions * K);
  for (size_t i = 0; i < cos.size(); ++i) {
    const double k = static_cast<double>(i % K % (K / 2)), p = static_cast<double>(i / K);
    const double angle = p * std::pow(1e4, -2 * k / static_cast<double>(K));
    cos[i] = emu::toStorage<T>(std::cos(angle));
    sin[i] = emu::toStorage<T>(std::sin(angle));
  }
  const std::vector<int32_t> pages = data.distinct(shape.rows * pagesPerRow, pageCount);
  std::vector<int32_t> positions(N);
  for (size_t n = 0; n < N; ++n) positions[n] = static_cast<int32_t>(data.uniform() * kCapacity);
  positions[0] = kCapacity - 1;
  if (N > 2) positions[N / 2] = -1;  // a row that is not in use
  const size_t cacheSize = static_cast<size_t>(pageCount * pagePositions) * J * K;
  std::vector<T> keys = emu::unwritten<T>(cacheSize), values = keys;
  std::vector<T> expectedKeys = keys, expectedValues = keys;
  std::vector<T> q = emu::unwritten<T>(N * H * K);
  const std::vector<T> input = qkv;
  const RotateArgs args{.qkv_NE = qkv.data(),
                        .qNorm_K = qNorm,
                        .kNorm_K = kNorm,
                        .cos_PK = cos.data(),
                        .sin_PK = sin.data(),
                        .pages_NT = pages.data(),
                        .positions_N = positions.data(),
                        .q_NHK = inPlace ? qkv.data() : q.data(),
                        .keys_SJLK = keys.data(),
                        .values_SJLK = values.data(),
                        .qStride = static_cast<int64_t>(inPlace ? E : H * K),
                        .heads = shape.heads,
                        .kvHeads = shape.kvHeads,
                        .headDim = shape.headDim,
                        .pagesPerRow = pagesPerRow,
                        .pagePositions = pagePositions,
                        .eps = kEps};
  emu::launch(fp32 ? acoer_rotate_fp32 : acoer_rotate_bf16,
              dim3(static_cast<unsigned>(shape.rows),
                   static_cast<unsigned>(rotateBlocks(shape.heads, shape.kvHeads))),
              dim3(kRotateThreads), 0, args);

  emu::SameRoundings roundings;
  std::vector<T> expectedQ = emu::unwritten<T>(N * H * K), expectedQkv = input;
  // Compares a head and returns what was found, so that all the rest can be compared bit by bit.
  auto takeHead = [&](const Head<T>& expected, const T* found, T* to) {
    for (size_t k = 0; k < K; ++k) {
      emu::expectNear(emu::toDouble(found[k]), expected.exact[k], expected.bound[k], what);
      if (!fp32) roundings.add(found[k], expected.rounded[k]);
      to[k] = found[k];
    }
  };
  for (size_t n = 0; n < N; ++n) {
    if (positions[n] < 0) continue;
    const auto position = static_cast<size_t>(positions[n]), L = static_cast<size_t>(pagePositions);
    const auto page =
        static_cast<size_t>(pages[n * static_cast<size_t>(pagesPerRow) + position / L]);
    const T *c = &cos[position * K], *s = &sin[position * K], *row = &input[n * E];
    for (size_t h = 0; h < H; ++h) {
      const Head<T> head = referenceHead(row + h * K, qNorm, c, s, K);
      if (inPlace) {
        takeHead(head, &qkv[n * E + h * K], &expectedQkv[n * E + h * K]);
      } else {
        takeHead(head, &q[(n * H + h) * K], &expectedQ[(n * H + h) * K]);
      }
    }
    for (size_t j = 0; j < J; ++j) {
      const size_t place = ((page * J + j) * L + position % L) * K;
      takeHead(referenceHead(row + (H + j) * K, kNorm, c, s, K), &keys[place],
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
EMU_TEST(rotate_any_row_count) {
  for (int rows = 1; rows <= 17; ++rows) {
    checkRotate<Bf16>({rows, 4, 2, 128}, rows % 2 == 0, static_cast<uint64_t>(rows));
  }
}
