// RMS norm with rotation, and its backward, in every set of kernels against float64 with autograd.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <bit>

#include "check.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/sets.h"
#include "ops/norm.h"
#include "ops/rope.h"

namespace acoer::check {
namespace {

using kernels::KernelSet;

constexpr int64_t kTokens = 5, kHeads = 3;
constexpr double kEps = 1e-6;

struct Shape {
  int64_t width;
  bool weight, rotation, residual;
};

template <class T>
class Case {
 public:
  Case(const Shape& shape, at::ScalarType dtype) : shape_(shape), dtype_(dtype) {
    at::manual_seed(shape.width);
    // Every token holds another head, which is not read.
    x_ = normal({kTokens, kHeads + 1, shape.width}).narrow(1, 1, kHeads);
    dy_ = normal({kTokens, kHeads, shape.width});
    residual_ = normal({kTokens, kHeads, shape.width});
    weight_ = normal({shape.width});
    const at::Tensor angles = at::randn({kTokens, shape.width / 2}, at::kDouble).repeat({1, 2});
    cos_ = at::cos(angles).to(dtype);
    sin_ = at::sin(angles).to(dtype);
    f_ = {.weight = shape.weight ? readPointer<T>(weight_) : nullptr,
          .cos = shape.rotation ? readPointer<T>(cos_) : nullptr,
          .sin = shape.rotation ? readPointer<T>(sin_) : nullptr,
          .eps = kEps};
  }

  // The largest error of y, dx and dweight, relative to the largest value.
  double error(const kernels::RowKernels<T>& kernel) const {
    using A = kernels::Acc<T>;
    const auto wide = dtype_ == at::kDouble ? at::kDouble : at::kFloat;
    at::Tensor y = at::empty_like(dy_), dx = at::empty_like(dy_);
    at::Tensor inverseRms = at::empty({kTokens * kHeads}, wide);
    at::Tensor dWeight = at::ones({shape_.width}, wide);
    const kernels::RmsRotationTape<T> tape{rows<const T>(x_), readPointer<A>(inverseRms),
                                           shape_.residual ? readPointer<T>(residual_) : nullptr};
    // In two parts, as by two threads.
    for (const auto& [from, to] : {std::pair{0, 2}, std::pair{2, 5}}) {
      kernel.rmsRotate(f_, tape.x, rows<T>(y), writePointer<A>(inverseRms), from, to);
      kernel.rmsRotateBackward(f_, tape, rows<const T>(dy_), rows<T>(dx), writePointer<A>(dWeight),
                               from, to);
    }
    const c10::AutoGradMode grad(true);
    const at::Tensor x = x_.to(at::kDouble).requires_grad_(true);
    const at::Tensor weight = weight_.to(at::kDouble).requires_grad_(true);
    at::Tensor expected = shape_.weight ? rmsRotateByTensorOps(x, weight, kEps, {}).y : x;
    if (shape_.rotation) {
      expected = applyRope(expected, cos_.to(at::kDouble), sin_.to(at::kDouble));
    }
    expected.backward(dy_.to(at::kDouble));
    const at::Tensor expectedDx = shape_.residual ? x.grad() + residual_.to(at::kDouble) : x.grad();
    double worst = std::max(relative(y, expected.detach()), relative(dx, expectedDx));
    if (shape_.weight) worst = std::max(worst, relative(dWeight, weight.grad() + 1));
    return worst;
  }

 private:
  at::Tensor normal(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::kDouble).to(dtype_);
  }

  template <class Value>
  static kernels::Rows<Value> rows(const at::Tensor& x) {
    return {writePointer<std::remove_const_t<Value>>(x),
            kTokens,
            kHeads,
            x.size(2),
            x.stride(0),
            x.stride(1)};
  }

  static double relative(const at::Tensor& got, const at::Tensor& expected) {
    const at::Tensor off = (got.to(at::kDouble) - expected).abs().max();
    return off.item<double>() / expected.abs().max().item<double>();
  }

  Shape shape_;
  at::ScalarType dtype_;
  at::Tensor x_, dy_, residual_, weight_, cos_, sin_;
  kernels::RmsRotation<T> f_;
};

template <class T>
void checkSet(const kernels::RowKernels<T>& kernel, at::ScalarType dtype, double bound) {
  for (const int64_t width : {128, 96, 64, 20, 6}) {
    for (const bool residual : {false, true}) {
      for (const bool rotation : {false, true}) {
        ACOER_CHECK_LE(Case<T>({width, true, rotation, residual}, dtype).error(kernel), bound);
      }
    }
    ACOER_CHECK_LE(Case<T>({width, false, true, false}, dtype).error(kernel), bound);
  }
  ACOER_CHECK_LE(Case<T>({33, true, false, true}, dtype).error(kernel), bound);
}

ACOER_TEST(norm_kernels) {
  for (const KernelSet* set : kernels::usableSets()) {
    checkSet(set->rowsFloat, at::kFloat, 1e-6);
    checkSet(set->rowsDouble, at::kDouble, 1e-14);
    checkSet(set->rowsBf16, at::kBFloat16, 0.02);
  }
}

// A NaN whose lowest bits are set would become zero if it were rounded like a number.
ACOER_TEST(norm_kernels_keep_nan) {
  constexpr int64_t kWidth = 64;
  const at::Tensor x = at::ones({1, kWidth}, at::kBFloat16), dx = at::empty_like(x);
  const auto nan = std::bit_cast<float>(0x7fffffffU);
  using kernels::Bf16;
  const kernels::Rows<const Bf16> in{readPointer<Bf16>(x), 1, 1, kWidth, kWidth, kWidth};
  const kernels::Rows<Bf16> out{writePointer<Bf16>(dx), 1, 1, kWidth, kWidth, kWidth};
  for (const KernelSet* set : kernels::usableSets()) {
    dx.zero_();
    set->rowsBf16.rmsRotateBackward({.weight = in.data}, {in, &nan, nullptr}, in, out, nullptr, 0,
                                    1);
    ACOER_CHECK(dx.isnan().all().item<bool>());
  }
}

}  // namespace
}  // namespace acoer::check
