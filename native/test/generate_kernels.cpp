// The CPU kernels of every instruction set that this machine has, against tensor operations in
// fp64.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <limits>

#include "generate/kv_cache.h"
#include "generate_support.h"
#include "kernels/cpu/sets.h"
#include "ops/ops.h"
#include "ops/rope.h"

namespace acoer::check {
namespace {

using kernels::KernelSet;

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// The same product with W, and then x, given the other way round.
template <class T>
void checkTransposed(const kernels::MathKernels<T>& math, const at::Tensor& x, const at::Tensor& w,
                     double bound) {
  const int64_t rows = x.size(0), depth = x.size(1), columns = w.size(0);
  const int64_t panels = (columns + math.panelWidth - 1) / math.panelWidth;
  const at::Tensor xT = x.t().contiguous(), wT = w.t().contiguous();
  at::Tensor packed = at::empty({panels * math.panelWidth * depth}, x.scalar_type());
  math.packTransposed(wT.const_data_ptr<T>(), columns, columns, depth, T(0.5),
                      packed.mutable_data_ptr<T>());
  at::Tensor y = at::ones({rows, columns}, x.scalar_type());
  math.gemmTransposed(xT.const_data_ptr<T>(), rows, packed.const_data_ptr<T>(),
                      y.mutable_data_ptr<T>(), columns, rows, columns, depth, true);
  const at::Tensor expected = x.to(at::kDouble).mm(w.to(at::kDouble).t()) * 0.5 + 1;
  ACOER_CHECK_LE(worst(y, expected), bound);
}

template <class T>
void checkGemm(const kernels::MathKernels<T>& math, at::ScalarType dtype, double bound) {
  for (const auto [rows, columns, depth] :
       {std::array<int64_t, 3>{32, 256, 96}, {1, 7, 5}, {13, 48, 33}, {3, 100, 16}, {6, 136, 1}}) {
    const at::Tensor x = normal({rows, depth}, 1).to(dtype),
                     w = normal({columns, depth}, 2).to(dtype);
    at::Tensor y = normal({rows, columns}, 3).to(dtype);
    const at::Tensor expected = y.to(at::kDouble) + x.to(at::kDouble).mm(w.to(at::kDouble).t());
    const int64_t panels = (columns + math.panelWidth - 1) / math.panelWidth;
    at::Tensor packed = at::empty({panels * math.panelWidth * depth}, dtype);
    math.pack(w.const_data_ptr<T>(), depth, columns, depth, T(1), packed.mutable_data_ptr<T>());
    math.gemm(x.const_data_ptr<T>(), depth, packed.const_data_ptr<T>(), y.mutable_data_ptr<T>(),
              columns, rows, columns, depth, true);
    ACOER_CHECK_LE(worst(y, expected), bound);
    checkTransposed(math, x, w, bound);
    // The last row alone gives the same bits as together with the others.
    at::Tensor all = at::zeros_like(y), alone = at::zeros({columns}, dtype);
    math.gemm(x.const_data_ptr<T>(), depth, packed.const_data_ptr<T>(), all.mutable_data_ptr<T>(),
              columns, rows, columns, depth, false);
    const at::Tensor last = x[rows - 1];
    math.gemm(last.const_data_ptr<T>(), depth, packed.const_data_ptr<T>(),
              alone.mutable_data_ptr<T>(), columns, 1, columns, depth, false);
    ACOER_CHECK(at::equal(all[rows - 1], alone));
  }
}

ACOER_TEST(generate_kernels_gemm) {
  for (const KernelSet* set : kernels::usableSets()) {
    checkGemm(set->mathFloat, at::kFloat, 1e-4);
    checkGemm(set->mathDouble, at::kDouble, 1e-12);
  }
}

struct Shape {
  int64_t heads, kvHeads, headDim;
  bool norms = true;
};

// Keys of slot 1 of a tiled cache, [L, J, K], or values.
at::Tensor positionsOf(const at::Tensor& cache) {
  const at::Tensor slot = cache[1];
  const at::Tensor byHead = slot.dim() == 3 ? slot : slot.transpose(2, 3).flatten(1, 2);
  return byHead.transpose(0, 1);
}

// The codes in the cache, bit for bit, by libtorch's operations on what another cache holds, and
// the row as it is read back. Returns it in fp64.
at::Tensor checkCodes(const at::Tensor& kept, const at::Tensor& codes, const at::Tensor& scales,
                      const at::Tensor& row) {
  const int64_t length = kept.size(0);
  const QuantizedHeads expected = quantized(kept);
  const QuantizedHeads found{positionsOf(codes).narrow(0, 0, length),
                             scales[1].transpose(0, 1).narrow(0, 0, length)};
  ACOER_CHECK(at::equal(found.codes, expected.codes));
  ACOER_CHECK(at::equal(found.scales, expected.scales));
  ACOER_CHECK(at::equal(row, dequantized(expected, row.scalar_type())));
  return dequantized(found, at::kDouble);
}

// writeHeads, then attend, against plain formulas in fp64 on the same (rounded) inputs. C: what the
// cache holds.
template <class T, class C = T>
void checkAttention(const kernels::RowKernels<T>& kernel, at::ScalarType dtype, Shape shape,
                    double bound) {
  using A = kernels::Acc<T>;
  const auto wide = dtype == at::kDouble ? at::kDouble : at::kFloat;
  const int64_t H = shape.heads, J = shape.kvHeads, K = shape.headDim, L = 48, length = 37;
  const int64_t E = (H + 2 * J) * K;
  ModelSpec spec = tinySpec();
  spec.headDim = K;
  const RopeTable table = ropeTable(spec, L, at::kCPU, dtype);
  const at::Tensor cos = table.cos_PK.to(dtype).to(wide), sin = table.sin_PK.to(dtype).to(wide);
  const at::Tensor qNorm = normal({K}, 4).to(dtype), kNorm = normal({K}, 5).to(dtype);
  at::Tensor qkv = normal({length, E}, 6).to(dtype);
  const at::Tensor input = qkv.clone().to(at::kDouble).view({length, H + 2 * J, K});
  // NaN, so that positions that were never written show if they are read.
  const double nan = std::numeric_limits<double>::quiet_NaN();
  at::Tensor keys = at::full({2, J, L / 16, K, 16}, nan, dtype);
  at::Tensor values = at::full({2, J, L, K}, nan, dtype);
  at::Tensor keyCodes = at::full({2, J, L / 16, K, 16}, 127, at::kChar);
  at::Tensor valueCodes = at::full({2, J, L, K}, 127, at::kChar);
  at::Tensor keyScales = at::full({2, J, L}, nan, at::kFloat), valueScales = keyScales.clone();
  at::Tensor out = at::zeros({length, H * K}, dtype);
  std::vector<int32_t> slots(static_cast<size_t>(length), 1), positions;
  for (int32_t t = 0; t < length; ++t) positions.push_back(t);
  constexpr bool kInt8 = kernels::kIsQuantized<T, C>;
  at::Tensor plainRows = qkv.clone();
  kernels::AttentionArgs<T, C> args;
  args.qkv_NE = static_cast<T*>(qkv.data_ptr());
  args.keys_SJLK = static_cast<C*>((kInt8 ? keyCodes : keys).data_ptr());
  args.values_SJLK = static_cast<C*>((kInt8 ? valueCodes : values).data_ptr());
  if (kInt8) {
    args.keyScales_SJL = keyScales.data_ptr<float>();
    args.valueScales_SJL = valueScales.data_ptr<float>();
  }
  args.out_NHK = static_cast<T*>(out.data_ptr());
  args.page_NT = slots.data();
  args.position_N = positions.data();
  args.rows = length;
  args.heads = H;
  args.kvHeads = J;
  args.headDim = K;
  args.pagePositions = L;
  if (shape.norms) {
    args.qNorm_K = static_cast<const T*>(qNorm.const_data_ptr());
    args.kNorm_K = static_cast<const T*>(kNorm.const_data_ptr());
  }
  args.cos_PK = static_cast<const A*>(cos.const_data_ptr());
  args.sin_PK = static_cast<const A*>(sin.const_data_ptr());
  args.eps = 1e-6;
  const auto run = [&](const auto& cacheKernels) {
    cacheKernels.writeHeads(args, 0, length);
    cacheKernels.attend(args, 0, length * J);
  };
  if constexpr (kInt8) {
    run(kernel.int8Cache);
  } else {
    run(kernel.cache);
  }

  auto rotate = [&](const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor scale = at::rsqrt((x * x).mean({-1}, true) + 1e-6);
    const at::Tensor normed = shape.norms ? x * scale * weight.to(at::kDouble) : x;
    const auto halves = normed.chunk(2, -1);
    const at::Tensor turned = at::cat({-halves[1], halves[0]}, -1);
    return normed * cos.narrow(0, 0, length).unsqueeze(1) +
           turned * sin.narrow(0, 0, length).unsqueeze(1);
  };
  const at::Tensor q = rotate(input.narrow(1, 0, H), qNorm).transpose(0, 1);
  at::Tensor k = rotate(input.narrow(1, H, J), kNorm).transpose(0, 1);
  at::Tensor v = input.narrow(1, H + J, J).transpose(0, 1);
  if constexpr (kInt8) {
    kernels::AttentionArgs<T, T> plain{.qkv_NE = static_cast<T*>(plainRows.data_ptr()),
                                       .keys_SJLK = static_cast<T*>(keys.data_ptr()),
                                       .values_SJLK = static_cast<T*>(values.data_ptr()),
                                       .page_NT = args.page_NT,
                                       .position_N = args.position_N,
                                       .rows = length,
                                       .heads = H,
                                       .kvHeads = J,
                                       .headDim = K,
                                       .pagePositions = L,
                                       .qNorm_K = args.qNorm_K,
                                       .kNorm_K = args.kNorm_K,
                                       .cos_PK = args.cos_PK,
                                       .sin_PK = args.sin_PK,
                                       .eps = args.eps};
    kernel.cache.writeHeads(plain, 0, length);
    const at::Tensor rows = qkv.view({length, H + 2 * J, K});
    k = checkCodes(positionsOf(keys).narrow(0, 0, length), keyCodes, keyScales,
                   rows.narrow(1, H, J))
            .transpose(0, 1);
    v = checkCodes(positionsOf(values).narrow(0, 0, length), valueCodes, valueScales,
                   rows.narrow(1, H + J, J))
            .transpose(0, 1);
  }
  at::Tensor scores = at::matmul(q, k.repeat_interleave(H / J, 0).transpose(1, 2)) / std::sqrt(K);
  const at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  const at::Tensor expected = at::matmul(at::softmax(scores, -1), v.repeat_interleave(H / J, 0))
                                  .transpose(0, 1)
                                  .reshape({length, H * K});
  ACOER_CHECK_LE(worst(out, expected), bound);
}

ACOER_TEST(generate_kernels_attention) {
  for (const KernelSet* set : kernels::usableSets()) {
    for (const Shape shape :
         {Shape{4, 2, 32}, {16, 8, 128}, {6, 2, 20}, {8, 1, 64}, {7, 1, 6}, {6, 1, 20, false}}) {
      checkAttention(set->rowsFloat, at::kFloat, shape, 3e-5);
      checkAttention(set->rowsDouble, at::kDouble, shape, 1e-12);
      checkAttention(set->rowsBf16, at::kBFloat16, shape, 0.12);
      checkAttention<float, int8_t>(set->rowsFloat, at::kFloat, shape, 3e-5);
      checkAttention<double, int8_t>(set->rowsDouble, at::kDouble, shape, 1e-12);
      checkAttention<kernels::Bf16, int8_t>(set->rowsBf16, at::kBFloat16, shape, 0.12);
    }
  }
}

template <class T>
void checkSwigluBackward(const kernels::RowKernels<T>& kernel, const at::Tensor& gateUp,
                         double bound) {
  const int64_t rows = gateUp.size(0), width = gateUp.size(1) / 2;
  const at::Tensor dy = normal({rows, width}, 10).to(gateUp.scalar_type());
  const at::Tensor d = at::empty_like(gateUp);
  kernel.swigluBackward(static_cast<const T*>(gateUp.const_data_ptr()),
                        static_cast<const T*>(dy.const_data_ptr()), static_cast<T*>(d.data_ptr()),
                        rows, width);
  const at::Tensor leaf = gateUp.to(at::kDouble).requires_grad_(true);
  const c10::AutoGradMode grad(true);
  swiglu(leaf).backward(dy.to(at::kDouble));
  ACOER_CHECK_LE(worst(d, leaf.grad()) / leaf.grad().abs().max().item<double>(), bound);
}

template <class T>
void checkRows(const kernels::RowKernels<T>& kernel, at::ScalarType dtype, double bound) {
  for (int64_t width : {96, 256, 33}) {
    const at::Tensor out = at::empty({5, width}, dtype);
    const at::Tensor gateUp = normal({5, 2 * width}, 9).to(dtype) * 8;
    kernel.swiglu(static_cast<const T*>(gateUp.const_data_ptr()), static_cast<T*>(out.data_ptr()),
                  5, width);
    const auto halves = gateUp.chunk(2, -1);
    const at::Tensor expected = at::silu(halves[0]) * halves[1];
    ACOER_CHECK_LE(worst(out, expected) / expected.abs().max().item<double>(), bound);
    checkSwigluBackward(kernel, gateUp, bound);
  }
}

ACOER_TEST(generate_kernels_rows) {
  for (const KernelSet* set : kernels::usableSets()) {
    checkRows(set->rowsFloat, at::kFloat, 1e-5);
    checkRows(set->rowsDouble, at::kDouble, 1e-13);
    checkRows(set->rowsBf16, at::kBFloat16, 0.04);
  }
}

}  // namespace
}  // namespace acoer::check
