#include "matrix/matrix.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/dispatch.h"
#include "matrix/gpu_quantised.h"
#include "matrix/panels.h"
#include "matrix/small_products.h"

namespace acoer {
namespace {

using kernels::Bf16;
using kernels::kPanelRows;

// Below this a parallel region costs more than it saves.
constexpr int64_t kParallelFlops = int64_t{1} << 21;
// Columns of a bf16 matrix widened to fp32 at a time: 64 MB at 4,096 columns.
constexpr int64_t kWidenedRows = 4096;
// Weights dequantised at a time where they are not multiplied in panels: 64 MB in fp32.
constexpr int64_t kDequantisedNumbers = int64_t{1} << 24;

kernels::ProductScratch* scratch() {
  thread_local const auto own = std::make_unique<kernels::ProductScratch>();
  return own.get();
}

// Computes the columns of y in parallel; `columns` x `depth` is the matrix as it is used.
void multiply(kernels::Product product, const kernels::ProductArgs& args, int64_t columns,
              int64_t depth) {
  const int64_t panels = (columns + kPanelRows - 1) / kPanelRows;
  const int64_t flops = 2 * args.rows * depth * kPanelRows;
  const int64_t grain = std::max<int64_t>(1, kParallelFlops / std::max<int64_t>(1, flops));
  at::parallel_for(0, panels, grain,
                   [&](int64_t first, int64_t last) { product(args, first, last, scratch()); });
}

kernels::ProductArgs productArgs(const at::Tensor& x, const at::Tensor& w, const at::Tensor& y,
                                 double scale, bool add, int64_t outputs, int64_t inputs) {
  return {.x = readPointer<Bf16>(x),
          .ldx = x.stride(0),
          .w = readPointer<Bf16>(w),
          .ldw = w.stride(0),
          .y = y.data_ptr(),
          .ldy = y.stride(0),
          .wide = y.scalar_type() == at::kFloat,
          .scale = static_cast<float>(scale),
          .add = add,
          .rows = x.size(0),
          .outputs = outputs,
          .inputs = inputs};
}

// The same with a quantised W.
kernels::ProductArgs productArgs(const at::Tensor& x, const kernels::QuantisedWeight& w,
                                 const at::Tensor& y, double scale, bool add, int64_t outputs) {
  kernels::ProductArgs args = productArgs(x, x, y, scale, add, outputs, w.inputs);
  args.w = nullptr;
  args.quantised = &w;
  return args;
}

// y = x W^T in fp32 for bf16 x and W.
void widenedForward(at::Tensor y_TO, const at::Tensor& x_TI, const at::Tensor& w_OI) {
  if (!x_TI.is_cpu()) return libraryProductInto(y_TO, x_TI, w_OI.t(), false, 1);
  const at::Tensor wide_TI = x_TI.to(at::kFloat);
  for (int64_t first = 0; first < w_OI.size(0); first += kWidenedRows) {
    const int64_t rows = std::min(kWidenedRows, w_OI.size(0) - first);
    at::Tensor columns = y_TO.narrow(1, first, rows);
    at::mm_out(columns, wide_TI, w_OI.narrow(0, first, rows).to(at::kFloat).t());
  }
}

// a^T b in fp32: a [T, R], b [T, C] -> [R, C].
at::Tensor transposedProduct(const at::Tensor& a_TR, const at::Tensor& b_TC) {
  const at::Tensor x_RT = a_TR.t().contiguous();
  const at::Tensor b = b_TC.stride(1) == 1 ? b_TC : b_TC.contiguous();
  const int64_t tokens = b.size(0), columns = b.size(1);
  const at::Tensor y_RC = at::empty({x_RT.size(0), columns}, b.options().dtype(at::kFloat));
  multiply(kernels::productKernels().plain, productArgs(x_RT, b, y_RC, 1, false, tokens, columns),
           columns, tokens);
  return y_RC;
}

// As smallProductInto(), for a plain matrix of any size.
void multiplyPlain(at::Tensor y, const at::Tensor& x, const at::Tensor& w_OI, bool transposed,
                   double scale, bool add) {
  if (isSmallMatrix(w_OI, x)) return smallProductInto(y, x, w_OI, transposed, scale, add);
  libraryProductInto(y, x, transposed ? w_OI.t() : w_OI, add, scale);
}

}  // namespace

bool startFrom(const at::Tensor& y_TO, const Into& into) {
  if (!into.bias_O.defined()) return into.add;
  at::Tensor y = y_TO;
  y.copy_(into.bias_O.expand_as(y));
  return true;
}

void libraryProductInto(at::Tensor y, const at::Tensor& x, const at::Tensor& w, bool add,
                        double scale) {
  if (add || scale != 1) {
    at::addmm_out(y, y, x, w, add ? 1 : 0, scale);
  } else if (y.scalar_type() == x.scalar_type()) {
    at::mm_out(y, x, w);
  } else {
    at::mm_out(y, x, w, y.scalar_type());
  }
}

Matrix::Matrix(at::Tensor w_OI)
    : memory_(std::move(w_OI)),
      type_(memory_.scalar_type()),
      outputs_(memory_.size(0)),
      inputs_(memory_.size(1)) {}

Matrix::Matrix(Quantised quantised, at::ScalarType type, std::shared_ptr<QuantisedScratch> scratch)
    : form_(quantised.kind == Quantization::kNf4 ? Form::kNf4 : Form::kInt8),
      memory_(quantised.codes),
      quantised_(std::make_shared<const Quantised>(std::move(quantised))),
      scratch_(scratch ? std::move(scratch) : std::make_shared<QuantisedScratch>()),
      type_(type),
      outputs_(quantised_->outputs()),
      inputs_(quantised_->inputs()) {
  scratch_->add(*quantised_);
}

Matrix Matrix::ofModel(const at::Tensor& w_OI, at::Device device) {
  Matrix w(w_OI.to(device));
  if (fitsPanels(w.memory_)) {
    w.form_ = Form::kPanels;
    w.memory_ = toPanels(w.memory_);
  }
  return w;
}

Matrix Matrix::forProducts(const at::Tensor& w_OI) {
  const bool panels = w_OI.scalar_type() == at::kBFloat16 && w_OI.is_cpu();
  return Matrix(w_OI).in(panels ? Form::kPanels : Form::kPlain);
}

Matrix Matrix::in(Form form) const {
  if (isQuantised() && form == Form::kPacked) return Matrix(values()).in(form);
  Matrix w = *this;
  if (form_ == Form::kPanels || isQuantised() || form == form_) return w;
  w.form_ = form;
  if (form == Form::kPanels) w.memory_ = panelsOf(memory_);
  w.packed_ = form == Form::kPacked ? packForProducts(memory_) : at::Tensor();
  return w;
}

const at::Tensor& Matrix::plain() const {
  if (form_ == Form::kPanels) fail(ErrorCode::kInternal, "a matrix in panels is no plain tensor");
  if (isQuantised()) fail(ErrorCode::kInternal, "a quantised matrix is no plain tensor");
  return memory_;
}

int64_t Matrix::bytes() const {
  return isQuantised() ? quantised_->bytes() : static_cast<int64_t>(memory_.nbytes());
}

at::Tensor Matrix::values() const {
  if (isQuantised()) return dequantisedRows(*quantised_, 0, outputs_, type_);
  return form_ == Form::kPanels ? rows(at::arange(outputs_)) : memory_;
}

at::Tensor Matrix::forward(const at::Tensor& x_TI, bool wide) const {
  const auto type = wide ? at::kFloat : x_TI.scalar_type();
  const at::Tensor y_TO = at::empty({x_TI.size(0), outputs_}, x_TI.options().dtype(type));
  forwardInto(y_TO, x_TI);
  return y_TO;
}

void Matrix::forwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const Into& into) const {
  if (multipliesOnGpu(into)) {
    return gpuForwardInto(*into.kernels, *quantised_, *scratch_, y_TO, x_TI, into);
  }
  const bool add = startFrom(y_TO, into);
  if (isQuantised()) return quantisedForward(y_TO, x_TI, into.scale, add);
  if (form_ == Form::kPanels) {
    const auto args = productArgs(x_TI, memory_, y_TO, into.scale, add, outputs_, inputs_);
    return multiply(kernels::productKernels().forward, args, outputs_, inputs_);
  }
  if (form_ == Form::kPacked && into.scale == 1) {
    return packedForwardInto(y_TO, x_TI, packed_, add);
  }
  if (y_TO.scalar_type() != x_TI.scalar_type()) return widenedForward(y_TO, x_TI, memory_);
  multiplyPlain(y_TO, x_TI, memory_, /*transposed=*/true, into.scale, add);
}

at::Tensor Matrix::backward(const at::Tensor& dy_TO, const GpuKernels* kernels) const {
  const at::Tensor dx_TI = at::empty({dy_TO.size(0), inputs_}, dy_TO.options());
  backwardInto(dx_TI, dy_TO, {.kernels = kernels});
  return dx_TI;
}

void Matrix::backwardInto(const at::Tensor& dx_TI, const at::Tensor& dy_TO,
                          const Into& into) const {
  if (multipliesOnGpu(into)) {
    return gpuBackwardInto(*into.kernels, *quantised_, *scratch_, dx_TI, dy_TO, into);
  }
  if (isQuantised()) return quantisedBackward(dx_TI, dy_TO, into.scale, into.add);
  if (form_ == Form::kPanels) {
    const auto args = productArgs(dy_TO, memory_, dx_TI, into.scale, into.add, outputs_, inputs_);
    return multiply(kernels::productKernels().backward, args, inputs_, outputs_);
  }
  multiplyPlain(dx_TI, dy_TO, memory_, /*transposed=*/false, into.scale, into.add);
}

bool Matrix::multipliesOnGpu(const Into& into) const {
  return isQuantised() && into.kernels != nullptr && fitsGpuKernels(*quantised_, type_);
}

bool Matrix::multipliesPanels() const {
  return form_ == Form::kPanels || (isQuantised() && type_ == at::kBFloat16 && memory_.is_cpu());
}

at::ScalarType Matrix::backwardType() const { return multipliesPanels() ? at::kFloat : type_; }

void Matrix::quantisedForward(const at::Tensor& y_TO, const at::Tensor& x_TI, double scale,
                              bool add) const {
  if (multipliesPanels()) {
    const kernels::QuantisedWeight w = weightOf(*quantised_);
    const auto args = productArgs(x_TI, w, y_TO, scale, add, outputs_);
    return multiply(kernels::productKernels().quantisedForward, args, outputs_, inputs_);
  }
  for (int64_t first = 0; first < outputs_; first += dequantisedAtATime()) {
    const int64_t count = std::min(dequantisedAtATime(), outputs_ - first);
    const at::Tensor w_RI = dequantisedRows(*quantised_, first, count, type_);
    const at::Tensor y = y_TO.narrow(1, first, count);
    if (y.scalar_type() != x_TI.scalar_type()) {
      widenedForward(y, x_TI, w_RI);
    } else {
      multiplyPlain(y, x_TI, w_RI, /*transposed=*/true, scale, add);
    }
  }
}

void Matrix::quantisedBackward(const at::Tensor& dx_TI, const at::Tensor& dy_TO, double scale,
                               bool add) const {
  if (multipliesPanels()) {
    const kernels::QuantisedWeight w = weightOf(*quantised_);
    const auto args = productArgs(dy_TO, w, dx_TI, scale, add, outputs_);
    return multiply(kernels::productKernels().quantisedBackward, args, inputs_, outputs_);
  }
  for (int64_t first = 0; first < outputs_; first += dequantisedAtATime()) {
    const int64_t count = std::min(dequantisedAtATime(), outputs_ - first);
    const at::Tensor w_RI = dequantisedRows(*quantised_, first, count, type_);
    multiplyPlain(dx_TI, dy_TO.narrow(1, first, count), w_RI, /*transposed=*/false, scale,
                  add || first > 0);
  }
}

int64_t Matrix::dequantisedAtATime() const {
  return std::max<int64_t>(1, kDequantisedNumbers / inputs_);
}

at::Tensor Matrix::rows(const at::Tensor& ids_N) const {
  const at::Tensor rows_NI = at::empty({ids_N.size(0), inputs_}, memory_.options().dtype(type_));
  rowsInto(rows_NI, ids_N);
  return rows_NI;
}

void Matrix::rowsInto(const at::Tensor& rows_NI, const at::Tensor& ids_N) const {
  if (isQuantised()) {
    const at::Tensor ids = ids_N.cpu();
    for (int64_t n = 0; n < ids.numel(); ++n) {
      rows_NI[n].copy_(dequantisedRows(*quantised_, ids[n].item<int64_t>(), 1, type_)[0]);
    }
    return;
  }
  if (form_ != Form::kPanels) {
    at::Tensor out = rows_NI;
    at::index_select_out(out, memory_, 0, ids_N);
    return;
  }
  const auto* ids = ids_N.const_data_ptr<int64_t>();
  auto* out = writePointer<Bf16>(rows_NI);
  const int64_t stride = rows_NI.stride(0);
  at::parallel_for(0, ids_N.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) copyPanelRow(memory_, ids[n], out + n * stride);
  });
}

void Matrix::copyRow(int64_t id, void* out) const {
  if (form_ == Form::kPanels) return copyPanelRow(memory_, id, out);
  const auto bytes = static_cast<size_t>(inputs_) * c10::elementSize(type_);
  if (isQuantised()) {
    const at::Tensor row_I = dequantisedRows(*quantised_, id, 1, type_);
    std::memcpy(out, row_I.const_data_ptr(), bytes);
    return;
  }
  const auto* from = static_cast<const char*>(memory_.const_data_ptr());
  std::memcpy(out, from + static_cast<size_t>(id) * bytes, bytes);
}

at::Tensor weightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  if (hasSmallGradient(dy_TO, x_TI)) return smallWeightGradient(dy_TO, x_TI);
  const bool panels = dy_TO.scalar_type() == at::kBFloat16 && dy_TO.is_cpu();
  if (!panels) return at::mm(dy_TO.t(), x_TI);
  // The narrower one is transposed, the other is multiplied as it lies.
  const bool swapped = dy_TO.size(1) > x_TI.size(1);
  const at::Tensor y_RC = transposedProduct(swapped ? x_TI : dy_TO, swapped ? dy_TO : x_TI);
  return swapped ? y_RC.t() : y_RC;
}

}  // namespace acoer
