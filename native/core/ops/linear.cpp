#include "ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>

#include "kernels/cpu/bf16_products.h"
#include "kernels/cpu/dispatch.h"
#include "ops/small_products.h"

namespace acoer {
namespace {

using kernels::Bf16;
using kernels::kPanelRows;

// Below this a parallel region costs more than it saves.
constexpr int64_t kParallelFlops = int64_t{1} << 21;
// Columns of a bf16 matrix widened to fp32 at a time: 64 MB at 4,096 columns.
constexpr int64_t kWidenedRows = 4096;

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
                                 const Into& into, int64_t outputs, int64_t inputs) {
  return {.x = readPointer<Bf16>(x),
          .ldx = x.stride(0),
          .w = readPointer<Bf16>(w),
          .ldw = w.stride(0),
          .y = y.data_ptr(),
          .ldy = y.stride(0),
          .wide = y.scalar_type() == at::kFloat,
          .scale = static_cast<float>(into.scale),
          .add = into.add,
          .rows = x.size(0),
          .outputs = outputs,
          .inputs = inputs};
}

// y = x W^T in fp32 for bf16 x and W.
void widenedForward(at::Tensor y_TO, const at::Tensor& x_TI, const at::Tensor& w_OI) {
  if (!x_TI.is_cpu()) {
    at::mm_out(y_TO, x_TI, w_OI.t(), at::kFloat);
    return;
  }
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
  multiply(kernels::productKernels().plain, productArgs(x_RT, b, y_RC, {}, tokens, columns),
           columns, tokens);
  return y_RC;
}

void multiplyPlain(at::Tensor y, const at::Tensor& x, const at::Tensor& w, const Into& into) {
  if (into.add || into.scale != 1) {
    at::addmm_out(y, y, x, w, into.add ? 1 : 0, into.scale);
  } else {
    at::mm_out(y, x, w);
  }
}

}  // namespace

at::Tensor linearForward(const at::Tensor& x_TI, const at::Tensor& w, bool wide) {
  const auto type = wide ? at::kFloat : x_TI.scalar_type();
  const at::Tensor y_TO = at::empty({x_TI.size(0), outputsOf(w)}, x_TI.options().dtype(type));
  linearForwardInto(y_TO, x_TI, w);
  return y_TO;
}

void linearForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& w,
                       const Into& into) {
  if (inPanels(w)) {
    const int64_t outputs = y_TO.size(1), inputs = x_TI.size(1);
    return multiply(kernels::productKernels().forward,
                    productArgs(x_TI, w, y_TO, into, outputs, inputs), outputs, inputs);
  }
  if (y_TO.scalar_type() != x_TI.scalar_type()) return widenedForward(y_TO, x_TI, w);
  if (isSmallMatrix(w, x_TI)) return smallForwardInto(y_TO, x_TI, w, into);
  multiplyPlain(y_TO, x_TI, w.t(), into);
}

void startFromBias(const at::Tensor& y_TO, const at::Tensor& bias_O) {
  at::Tensor y = y_TO;
  y.copy_(bias_O.expand_as(y));
}

at::Tensor linearBackward(const at::Tensor& dy_TO, const at::Tensor& w) {
  const at::Tensor dx_TI = at::empty({dy_TO.size(0), inputsOf(w)}, dy_TO.options());
  linearBackwardInto(dx_TI, dy_TO, w);
  return dx_TI;
}

void linearBackwardInto(const at::Tensor& dx_TI, const at::Tensor& dy_TO, const at::Tensor& w,
                        const Into& into) {
  if (isSmallMatrix(w, dy_TO)) return smallBackwardInto(dx_TI, dy_TO, w, into);
  if (!inPanels(w)) return multiplyPlain(dx_TI, dy_TO, w, into);
  const int64_t outputs = dy_TO.size(1), inputs = dx_TI.size(1);
  multiply(kernels::productKernels().backward, productArgs(dy_TO, w, dx_TI, into, outputs, inputs),
           inputs, outputs);
}

at::Tensor linearWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  if (hasSmallGradient(dy_TO, x_TI)) return smallWeightGradient(dy_TO, x_TI);
  const bool panels = dy_TO.scalar_type() == at::kBFloat16 && dy_TO.is_cpu();
  if (!panels) return at::mm(dy_TO.t(), x_TI);
  // The narrower one is transposed, the other is multiplied as it lies.
  const bool swapped = dy_TO.size(1) > x_TI.size(1);
  const at::Tensor y_RC = transposedProduct(swapped ? x_TI : dy_TO, swapped ? dy_TO : x_TI);
  return swapped ? y_RC.t() : y_RC;
}

}  // namespace acoer
