#include "linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "bf16_products.h"
#include "cpu_dispatch.h"

namespace acoer {
namespace {

using kernels::Bf16;
using kernels::kBlockPairs;
using kernels::kBlockPanels;
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
          .panels = readPointer<Bf16>(w),
          .y = y.data_ptr(),
          .ldy = y.stride(0),
          .wide = y.scalar_type() == at::kFloat,
          .scale = static_cast<float>(into.scale),
          .add = into.add,
          .rows = x.size(0),
          .outputs = outputs,
          .inputs = inputs};
}

}  // namespace

bool inPanels(const at::Tensor& w) { return w.dim() == 4; }
int64_t outputsOf(const at::Tensor& w) { return inPanels(w) ? w.size(0) * kPanelRows : w.size(0); }
int64_t inputsOf(const at::Tensor& w) { return inPanels(w) ? w.size(1) * 2 : w.size(1); }

bool fitsPanels(const at::Tensor& w) {
  return w.dim() == 2 && w.scalar_type() == at::kBFloat16 && w.is_cpu() && w.is_contiguous() &&
         w.size(0) % kPanelRows == 0 && w.size(1) % kPanelRows == 0;
}

at::Tensor toPanels(const at::Tensor& w_OI) {
  const int64_t panels = w_OI.size(0) / kPanelRows, pairs = w_OI.size(1) / 2;
  const int64_t groups = (panels + kBlockPanels - 1) / kBlockPanels;
  auto* memory = static_cast<uint32_t*>(w_OI.data_ptr());
  at::parallel_for(0, groups, 1, [&](int64_t first, int64_t last) {
    std::vector<uint32_t> rows;
    for (int64_t p = first * kBlockPanels; p < std::min(panels, last * kBlockPanels); ++p) {
      if (p % kBlockPanels == 0) {
        const int64_t count = std::min(kBlockPanels, panels - p) * kPanelRows * pairs;
        rows.assign(memory + p * kPanelRows * pairs, memory + p * kPanelRows * pairs + count);
      }
      const uint32_t* from = rows.data() + p % kBlockPanels * kPanelRows * pairs;
      for (int64_t block = 0; block < pairs; block += kBlockPairs) {
        uint32_t* to = memory + kernels::panelPlace(panels, pairs, p, block) / 2;
        const int64_t count = std::min(kBlockPairs, pairs - block);
        for (int64_t r = 0; r < kPanelRows; ++r) {
          for (int64_t i = 0; i < count; ++i) to[i * kPanelRows + r] = from[r * pairs + block + i];
        }
      }
    }
  });
  return w_OI.view({panels, pairs, kPanelRows, 2});
}

at::Tensor panelsOf(const at::Tensor& w_OI) {
  const int64_t outputs = w_OI.size(0), inputs = w_OI.size(1);
  const int64_t panels = (outputs + kPanelRows - 1) / kPanelRows;
  const at::Tensor padded =
      at::zeros({panels * kPanelRows, (inputs + 1) / 2 * 2}, w_OI.options().dtype(at::kBFloat16));
  padded.narrow(0, 0, outputs).narrow(1, 0, inputs).copy_(w_OI);
  return toPanels(padded);
}

void copyRow(const at::Tensor& w, int64_t id, void* out) {
  if (!inPanels(w)) {
    const auto bytes = static_cast<size_t>(w.size(1) * w.element_size());
    std::memcpy(out, static_cast<const char*>(w.const_data_ptr()) + static_cast<size_t>(id) * bytes,
                bytes);
    return;
  }
  const int64_t panels = w.size(0), pairs = w.size(1);
  const auto* memory = static_cast<const uint32_t*>(w.const_data_ptr()) + id % kPanelRows;
  auto* row = static_cast<uint32_t*>(out);
  for (int64_t block = 0; block < pairs; block += kBlockPairs) {
    const auto* line = memory + kernels::panelPlace(panels, pairs, id / kPanelRows, block) / 2;
    const int64_t count = std::min(kBlockPairs, pairs - block);
    for (int64_t i = 0; i < count; ++i) row[block + i] = line[i * kPanelRows];
  }
}

at::Tensor rowsOf(const at::Tensor& w, const at::Tensor& ids_N) {
  if (!inPanels(w)) return w.index_select(0, ids_N);
  const at::Tensor rows_NI = at::empty({ids_N.size(0), inputsOf(w)}, w.options());
  const auto* ids = ids_N.const_data_ptr<int64_t>();
  Bf16* out = writePointer<Bf16>(rows_NI);
  at::parallel_for(0, ids_N.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) copyRow(w, ids[n], out + n * rows_NI.size(1));
  });
  return rows_NI;
}

at::Tensor readyToMultiply(const at::Tensor& w_OI) {
  return w_OI.scalar_type() == at::kBFloat16 && w_OI.is_cpu() ? panelsOf(w_OI) : w_OI;
}

at::Tensor linearForward(const at::Tensor& x_TI, const at::Tensor& w, bool wide) {
  const auto type = wide ? at::kFloat : x_TI.scalar_type();
  const at::Tensor y_TO = at::empty({x_TI.size(0), outputsOf(w)}, x_TI.options().dtype(type));
  linearForwardInto(y_TO, x_TI, w);
  return y_TO;
}

namespace {

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

void multiplyPlain(at::Tensor y, const at::Tensor& x, const at::Tensor& w, const Into& into) {
  if (into.add || into.scale != 1) {
    at::addmm_out(y, y, x, w, into.add ? 1 : 0, into.scale);
  } else {
    at::mm_out(y, x, w);
  }
}

}  // namespace

void linearForwardInto(const at::Tensor& y_TO, const at::Tensor& x_TI, const at::Tensor& w,
                       const Into& into) {
  if (inPanels(w)) {
    const int64_t outputs = y_TO.size(1), inputs = x_TI.size(1);
    return multiply(kernels::productKernels().forward,
                    productArgs(x_TI, w, y_TO, into, outputs, inputs), outputs, inputs);
  }
  if (y_TO.scalar_type() != x_TI.scalar_type()) return widenedForward(y_TO, x_TI, w);
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
  if (!inPanels(w)) return multiplyPlain(dx_TI, dy_TO, w, into);
  const int64_t outputs = dy_TO.size(1), inputs = dx_TI.size(1);
  multiply(kernels::productKernels().backward, productArgs(dy_TO, w, dx_TI, into, outputs, inputs),
           inputs, outputs);
}

at::Tensor linearWeightGradient(const at::Tensor& dy_TO, const at::Tensor& x_TI) {
  const bool widens = dy_TO.scalar_type() == at::kBFloat16 && dy_TO.is_cpu();
  if (!widens) return at::mm(dy_TO.t(), x_TI);
  return at::mm(dy_TO.to(at::kFloat).t(), x_TI.to(at::kFloat));
}

}  // namespace acoer
