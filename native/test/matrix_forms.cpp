// Every form of a weight matrix computes the same products.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <vector>

#include "check.h"
#include "matrix/matrix.h"

namespace acoer::check {
namespace {

using Form = Matrix::Form;

at::Tensor normal(at::IntArrayRef shape, uint64_t seed, at::ScalarType type) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble)).to(type);
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// All that a caller asks of a matrix, against fp64.
void checkProducts(const Matrix& w, const at::Tensor& w_OI, double bound) {
  const int64_t outputs = w_OI.size(0), inputs = w_OI.size(1);
  const at::ScalarType type = w_OI.scalar_type();
  ACOER_CHECK(w.outputs() == outputs && w.inputs() == inputs && w.type() == type);
  const at::Tensor x = normal({9, inputs}, 2, type), dy = normal({9, outputs}, 3, type);
  const at::Tensor exact = w_OI.to(at::kDouble);
  const at::Tensor y = x.to(at::kDouble).mm(exact.t()), dx = dy.to(at::kDouble).mm(exact);
  const auto isNear = [&](const at::Tensor& got, const at::Tensor& want) {
    ACOER_CHECK_LE(worst(got, want), bound * want.abs().max().item<double>());
  };
  isNear(w.forward(x), y);
  isNear(w.backward(dy), dx);
  const at::Tensor start = normal({9, outputs}, 4, type), bias_O = normal({outputs}, 5, type);
  const at::Tensor added = start.clone();
  w.forwardInto(added, x, {.add = true, .scale = 0.5});
  isNear(added, start.to(at::kDouble) + 0.5 * y);
  w.forwardInto(added, x, {.bias_O = bias_O});
  isNear(added, bias_O.to(at::kDouble) + y);
  const at::Tensor into = normal({9, inputs}, 6, w.backwardType()), before = into.clone();
  w.backwardInto(into, dy, {.add = true, .scale = -2});
  isNear(into, before.to(at::kDouble) - 2 * dx);
}

ACOER_TEST(matrix_forms_multiply_alike) {
  for (const auto& [outputs, inputs] :
       {std::array<int64_t, 2>{48, 32}, {16, 272}, {37, 21}, {600, 512}}) {
    for (const auto& [type, bound] : {std::pair{at::kFloat, 1e-5}, {at::kDouble, 1e-13}}) {
      const at::Tensor w_OI = normal({outputs, inputs}, 1, type);
      for (const Form form : {Form::kPlain, Form::kPacked}) {
        const Matrix w = Matrix(w_OI).in(form);
        ACOER_CHECK(w.form() == form && w.isSame(Matrix(w_OI)));
        ACOER_CHECK(w.plain().is_same(w_OI) && w.backwardType() == type);
        checkProducts(w, w_OI, bound);
      }
    }
    const at::Tensor w_OI = normal({outputs, inputs}, 1, at::kBFloat16);
    for (const Form form : {Form::kPlain, Form::kPanels}) {
      checkProducts(Matrix(w_OI).in(form), w_OI, 1.0 / 128);
    }
    checkProducts(Matrix::forProducts(w_OI), w_OI, 1.0 / 128);
  }
}

// Of two parts, the second of which begins within a panel.
Matrix quantised(Quantization kind, const at::Tensor& w_OI, at::ScalarType type) {
  const int64_t outputs = w_OI.size(0), first = outputs / 3;
  Quantised q = allocateQuantised(kind, {first, outputs - first}, w_OI.size(1));
  quantisePart(q, 0, w_OI.narrow(0, 0, first));
  quantisePart(q, 1, w_OI.narrow(0, first, outputs - first));
  return Matrix(std::move(q), type);
}

ACOER_TEST(matrix_forms_quantised) {
  for (const auto& [outputs, inputs] :
       {std::array<int64_t, 2>{48, 64}, {16, 320}, {37, 192}, {600, 576}, {50, 21}}) {
    for (const Quantization kind : {Quantization::kNf4, Quantization::kInt8}) {
      const bool nf4 = kind == Quantization::kNf4;
      if (nf4 && inputs % kNf4Block != 0) continue;
      for (const auto& [type, bound] :
           {std::pair{at::kFloat, 1e-5}, {at::kDouble, 1e-13}, {at::kBFloat16, 1.0 / 128}}) {
        const Matrix w = quantised(kind, normal({outputs, inputs}, 1, type), type);
        ACOER_CHECK(w.form() == (nf4 ? Form::kNf4 : Form::kInt8));
        const at::Tensor values_OI = w.values();
        checkProducts(w, values_OI, bound);
        const at::Tensor ids_N = at::tensor({15, 0, 15}, at::kLong),
                         row_I = at::empty({inputs}, type);
        ACOER_CHECK(at::equal(w.rows(ids_N), values_OI.index_select(0, ids_N)));
        w.copyRow(7, row_I.data_ptr());
        ACOER_CHECK(at::equal(row_I, values_OI[7]));
        ACOER_CHECK(w.in(Form::kPlain).isSame(w) && w.in(Form::kPanels).isSame(w));
        if (type == at::kBFloat16) continue;
        const Matrix packed = w.in(Form::kPacked);
        ACOER_CHECK(packed.form() == Form::kPacked && at::equal(packed.plain(), values_OI));
      }
    }
  }
}

ACOER_TEST(matrix_forms_hold_the_rows) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor w_OI = normal({48, 80}, 1, type),
                     ids_N = at::tensor({47, 0, 16, 16, 5}, at::kLong);
    const at::Tensor want = w_OI.index_select(0, ids_N);
    std::vector<Matrix> forms{Matrix(w_OI), Matrix::ofModel(w_OI.clone(), at::kCPU)};
    if (type != at::kBFloat16) forms.push_back(Matrix(w_OI).in(Form::kPacked));
    for (const Matrix& w : forms) {
      ACOER_CHECK(at::equal(w.rows(ids_N), want));
      const at::Tensor row_I = at::empty({80}, w_OI.options());
      w.copyRow(16, row_I.data_ptr());
      ACOER_CHECK(at::equal(row_I, w_OI[16]));
    }
  }
}

// Only bf16 of whole panels is rearranged, in its own memory; nothing else is copied.
ACOER_TEST(matrix_forms_of_a_model) {
  const auto formOf = [](at::IntArrayRef shape, at::ScalarType type) {
    const at::Tensor w_OI = normal(shape, 1, type);
    const Matrix w = Matrix::ofModel(w_OI, at::kCPU);
    ACOER_CHECK(w.memory().data_ptr() == w_OI.data_ptr());
    return w.form();
  };
  ACOER_CHECK(formOf({32, 48}, at::kBFloat16) == Form::kPanels);
  ACOER_CHECK(formOf({32, 40}, at::kBFloat16) == Form::kPlain);
  ACOER_CHECK(formOf({40, 32}, at::kBFloat16) == Form::kPlain);
  ACOER_CHECK(formOf({32, 48}, at::kFloat) == Form::kPlain);
  const Matrix panels = Matrix::ofModel(normal({32, 48}, 1, at::kBFloat16), at::kCPU);
  ACOER_CHECK(panels.backwardType() == at::kFloat && panels.in(Form::kPlain).isSame(panels));
  ACOER_CHECK_THROWS(panels.plain(), ErrorCode::kInternal, "in panels");
  ACOER_CHECK(!Matrix().defined());
}

}  // namespace
}  // namespace acoer::check
