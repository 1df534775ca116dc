// Norm and rotary embedding of heads in place of the fused projection, forward and backward,
// against float64 and against the roundings of rmsRotate and backwardOps in
// native/core/ops/norm.cpp.
#include "kernels/head_norm.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

constexpr float kEps = 1e-6f;

template <class T>
double rounded64(double x) {
  return emu::toDouble(emu::toStorage<T>(x));
}

// Heads as a view of memory that has more in it; nobody may touch the rest.
template <class T>
struct Heads {
  std::vector<T> memory;
  int64_t first, tokenStride, headStride;

  size_t at(size_t t, size_t h) const {
    return static_cast<size_t>(first) + t * static_cast<size_t>(tokenStride) +
           h * static_cast<size_t>(headStride);
  }
  HeadView view() { return {memory.data() + first, tokenStride, headStride}; }
};

struct Shape {
  int tokens, heads, headDim;
  // Head by head in place of token by token, as attention's gradients may lie.
  bool headsFirst;
  bool norm = true;
};

template <class T>
Heads<T> makeHeads(const Shape& s, int extra) {
  const int64_t K = s.headDim, T_ = s.tokens, H = s.heads;
  const int64_t rowLength = H * K + extra;
  Heads<T> heads{emu::unwritten<T>(static_cast<size_t>(T_ * rowLength)), extra / 2, rowLength, K};
  if (s.headsFirst) heads.tokenStride = K, heads.headStride = T_ * K, heads.first = 0;
  return heads;
}

template <class T>
void fill(Heads<T>& heads, const Shape& s, emu::Data& data, double mean, double deviation) {
  for (size_t t = 0; t < static_cast<size_t>(s.tokens); ++t) {
    for (size_t h = 0; h < static_cast<size_t>(s.heads); ++h) {
      for (size_t k = 0; k < static_cast<size_t>(s.headDim); ++k) {
        heads.memory[heads.at(t, h) + k] = emu::toStorage<T>(mean + deviation * data.normal());
      }
    }
  }
}

// What a head becomes: exact, by the kernel's roundings, and how far apart the two may lie.
struct Expected {
  std::vector<double> exact, bound, rounded;
};

template <class T>
struct Inputs {
  Shape shape;
  std::vector<T> weight, cos, sin;
  std::vector<float> inverse;
  Heads<T> x;

  size_t K() const { return static_cast<size_t>(shape.headDim); }
  const T* weights() const { return shape.norm ? weight.data() : nullptr; }
};

// The dimension that k is turned with, and its sign in the forward pass.
struct Partner {
  size_t k;
  double sign;
};
Partner partnerOf(size_t k, size_t K) { return {(k + K / 2) % K, k < K / 2 ? -1.0 : 1.0}; }

template <class T>
Expected forwardOf(const Inputs<T>& in, size_t t, size_t h) {
  constexpr bool fp32 = std::is_same_v<T, float>;
  const size_t K = in.K();
  const T* x = &in.x.memory[in.x.at(t, h)];
  double squares = 0;
  for (size_t k = 0; k < K; ++k) squares += std::pow(emu::toDouble(x[k]), 2);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(K) + kEps);
  std::vector<double> exact(K), rounded(K);
  for (size_t k = 0; k < K; ++k) {
    const double value = emu::toDouble(x[k]) * scale, w = emu::toDouble(in.weight[k]);
    exact[k] = in.shape.norm ? value * w : emu::toDouble(x[k]);
    rounded[k] = in.shape.norm ? rounded64<T>(rounded64<T>(value) * w) : exact[k];
  }
  Expected head;
  for (size_t k = 0; k < K; ++k) {
    const auto [other, sign] = partnerOf(k, K);
    const double c = emu::toDouble(in.cos[t * K + k]), s = emu::toDouble(in.sin[t * K + k]);
    head.exact.push_back(exact[k] * c + sign * exact[other] * s);
    // As in rotate.cpp.
    head.bound.push_back((fp32 ? 2e-6 : 4.1 * emu::kRounding<T>)*(std::abs(exact[k] * c) +
                                                                  std::abs(exact[other] * s)));
    head.rounded.push_back(
        rounded64<T>(rounded64<T>(rounded[k] * c) + rounded64<T>(sign * rounded[other] * s)));
  }
  return head;
}

template <class T>
Expected backwardOf(const Inputs<T>& in, const Heads<T>& dy, size_t t, size_t h) {
  const size_t K = in.K();
  const T *x = &in.x.memory[in.x.at(t, h)], *d = &dy.memory[dy.at(t, h)];
  const bool norm = in.shape.norm;
  const double r = norm ? in.inverse[t * static_cast<size_t>(in.shape.heads) + h] : 1;
  std::vector<double> g(K), gRounded(K), gError(K), n(K);
  double mean = 0, meanRounded = 0, meanError = 0;
  for (size_t k = 0; k < K; ++k) {
    const auto [other, sign] = partnerOf(k, K);
    const double c = emu::toDouble(in.cos[t * K + k]), s = emu::toDouble(in.sin[t * K + k]);
    const double w = norm ? emu::toDouble(in.weight[k]) : 1, a = emu::toDouble(d[k]) * c,
                 b = -sign * emu::toDouble(d[other]) * s;
    g[k] = (a + b) * w;
    gRounded[k] = rounded64<T>(rounded64<T>(a) + rounded64<T>(b)) * w;
    // Two products and a sum are rounded to T, the rest to fp32.
    gError[k] = (2.02 * emu::kRounding<T> + 3e-7) * (std::abs(a) + std::abs(b)) * std::abs(w);
    n[k] = norm ? emu::toDouble(x[k]) * r : 0;
    mean += g[k] * n[k] / static_cast<double>(K);
    meanRounded += gRounded[k] * n[k] / static_cast<double>(K);
    meanError += (gError[k] + 1e-6 * std::abs(g[k])) * std::abs(n[k]) / static_cast<double>(K);
  }
  Expected head;
  for (size_t k = 0; k < K; ++k) {
    const double slope = (g[k] - n[k] * mean) * r;
    head.exact.push_back(slope);
    const double terms = std::abs(g[k]) + std::abs(n[k] * mean);
    head.bound.push_back(r * (gError[k] + std::abs(n[k]) * meanError + 1e-6 * terms) +
                         1.01 * emu::kRounding<T> * std::abs(slope));
    head.rounded.push_back(rounded64<T>((gRounded[k] - n[k] * meanRounded) * r));
  }
  return head;
}

// Compares every head of `found`, and that nothing else was written.
template <class T, class HeadOf>
void compare(const Heads<T>& found, const Shape& shape, const std::string& what, HeadOf headOf) {
  emu::SameRoundings roundings;
  std::vector<T> untouched = emu::unwritten<T>(found.memory.size());
  for (size_t t = 0; t < static_cast<size_t>(shape.tokens); ++t) {
    for (size_t h = 0; h < static_cast<size_t>(shape.heads); ++h) {
      const Expected head = headOf(t, h);
      for (size_t k = 0; k < head.exact.size(); ++k) {
        const T value = found.memory[found.at(t, h) + k];
        emu::expectNear(emu::toDouble(value), head.exact[k], head.bound[k], what);
        if (!std::is_same_v<T, float>) roundings.add(value, emu::toStorage<T>(head.rounded[k]));
        untouched[found.at(t, h) + k] = value;
      }
    }
  }
  roundings.expect(what);
  emu::expectSame(found.memory, untouched, what);
}

template <class T>
Inputs<T> makeInputs(const Shape& shape, emu::Data& data) {
  Inputs<T> in{.shape = shape,
               .weight = data.normals<T>(static_cast<size_t>(shape.headDim), 1, 0.3),
               .cos = {},
               .sin = {},
               .inverse = emu::unwritten<float>(static_cast<size_t>(shape.tokens * shape.heads)),
               .x = makeHeads<T>(shape, 4 * shape.headDim)};
  fill(in.x, shape, data, 0.2, 1.5);
  const size_t K = in.K();
  for (size_t i = 0; i < static_cast<size_t>(shape.tokens) * K; ++i) {
    const double k = static_cast<double>(i % K % (K / 2)), position = 3.0 * data.uniform() * 500;
    const double angle = position * std::pow(1e4, -2 * k / static_cast<double>(K));
    in.cos.push_back(emu::toStorage<T>(std::cos(angle)));
    in.sin.push_back(emu::toStorage<T>(std::sin(angle)));
  }
  return in;
}

template <class T>
void checkShape(const Shape& shape, uint64_t seed) {
  constexpr bool fp32 = std::is_same_v<T, float>;
  const std::string what = std::to_string(shape.tokens) + " x " + std::to_string(shape.heads) +
                           " heads of " + std::to_string(shape.headDim) +
                           (shape.norm ? "" : " without norm");
  emu::Data data(seed);
  Inputs<T> in = makeInputs<T>(shape, data);
  const dim3 grid(static_cast<unsigned>(shape.tokens),
                  static_cast<unsigned>(headNormBlocks(shape.heads)));
  Heads<T> y = makeHeads<T>(shape, 0), dx = makeHeads<T>(shape, 6 * shape.headDim);
  emu::launch(fp32 ? acoer_head_norm_fp32 : acoer_head_norm_bf16, grid, dim3(kRotateThreads), 0,
              HeadNormArgs{.x = in.x.view(),
                           .y = y.view(),
                           .inverseRms_TH = in.inverse.data(),
                           .weight_K = in.weights(),
                           .cos_TK = in.cos.data(),
                           .sin_TK = in.sin.data(),
                           .heads = shape.heads,
                           .headDim = shape.headDim,
                           .eps = kEps});
  compare(y, shape, what, [&](size_t t, size_t h) { return forwardOf(in, t, h); });
  if (!shape.norm) {
    emu::expectSame(in.inverse, emu::unwritten<float>(in.inverse.size()), what + ": inverse rms");
  }

  Heads<T> dy = makeHeads<T>(shape, 2 * shape.headDim);
  fill(dy, shape, data, 0, 1);
  emu::launch(fp32 ? acoer_head_norm_backward_fp32 : acoer_head_norm_backward_bf16, grid,
              dim3(kRotateThreads), 0,
              HeadNormBackwardArgs{.dy = dy.view(),
                                   .x = in.x.view(),
                                   .dx = dx.view(),
                                   .inverseRms_TH = in.inverse.data(),
                                   .weight_K = in.weights(),
                                   .cos_TK = in.cos.data(),
                                   .sin_TK = in.sin.data(),
                                   .heads = shape.heads,
                                   .headDim = shape.headDim});
  compare(dx, shape, what + ", backward",
          [&](size_t t, size_t h) { return backwardOf(in, dy, t, h); });
}

template <class T>
void checkShapes() {
  emu::forEachSchedule([] {
    uint64_t seed = 1;
    for (const int headDim : {64, 96, 128}) {
      for (const int heads : {1, 3, 4, 8, 17}) {
        checkShape<T>({heads % 5 + 2, heads, headDim, heads % 2 == 0}, seed++);
        checkShape<T>({heads % 5 + 2, heads, headDim, heads % 2 == 0, false}, seed++);
      }
    }
  });
}

}  // namespace

EMU_TEST(head_norm_bf16) { checkShapes<Bf16>(); }
EMU_TEST(head_norm_fp32) { checkShapes<float>(); }
