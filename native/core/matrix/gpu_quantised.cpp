#include "matrix/gpu_quantised.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/gpu/kernels.h"
#include "matrix/matrix.h"

namespace acoer {
namespace {

using cuda::KernelId;

// By the count of decision 0296 no card of the plan loses more than a quarter with so many rows,
// and some would gain with more. No card has confirmed it.
constexpr int64_t kMostRowsFromCodes = 32;

static_assert(cuda::kNf4Block == kNf4Block && cuda::kNf4Group == kNf4Group);

int32_t size(int64_t n) { return static_cast<int32_t>(n); }

LaunchSize grid(int x, int y) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1}; }

cuda::Nf4Matrix nf4Matrix(const Quantised& q, const at::Tensor& tables) {
  cuda::Nf4Matrix w{.codes = q.codes.const_data_ptr<uint8_t>(),
                    .scales = q.scales.const_data_ptr<uint8_t>(),
                    .groups = q.groups.const_data_ptr<float>(),
                    .tables = tables.const_data_ptr<float>(),
                    .parts = {},
                    .outputs = size(q.outputs()),
                    .inputs = size(q.inputs())};
  for (cuda::Nf4Part& part : w.parts) part.firstRow = w.outputs;
  for (size_t p = 0; p < q.parts.size(); ++p) {
    w.parts[p] = {size(q.parts[p].firstRow), size(q.parts[p].firstGroup), q.parts[p].offset};
  }
  return w;
}

cuda::Int8Matrix int8Matrix(const Quantised& q) {
  return {.codes = q.codes.const_data_ptr<int8_t>(),
          .magnitudes = q.scales.const_data_ptr<float>(),
          .outputs = size(q.outputs()),
          .inputs = size(q.inputs())};
}

template <class Args>
void start(const GpuKernels& kernels, const at::Tensor& typed, KernelId bf16, KernelId fp32,
           LaunchSize size, const Args& args) {
  kernels.launch(typed.scalar_type() == at::kBFloat16 ? bf16 : fp32, size, args,
                 currentGpuStream(typed.device()));
}

// Whether the kernel reads these rows of x, in vectors of 16 bytes, and writes those of y.
bool fitsProduct(const at::Tensor& y_TO, const at::Tensor& x_TI) {
  const auto address = reinterpret_cast<uintptr_t>(x_TI.const_data_ptr());
  return x_TI.size(0) > 0 && x_TI.size(0) <= kMostRowsFromCodes &&
         y_TO.scalar_type() == x_TI.scalar_type() && y_TO.stride(1) == 1 && x_TI.stride(1) == 1 &&
         x_TI.stride(0) % 8 == 0 && address % 16 == 0;
}

at::Tensor dequantised(const GpuKernels& kernels, const Quantised& q, QuantisedScratch& scratch,
                       at::ScalarType type) {
  const at::Tensor w_OI = scratch.plain(q, type);
  startDequantise(kernels, q, scratch.tables(q, type), w_OI);
  return w_OI;
}

}  // namespace

void QuantisedScratch::add(const Quantised& q) {
  numbers_ = std::max(numbers_, q.outputs() * q.inputs());
}

void QuantisedScratch::reserve(at::Device device, at::ScalarType type) {
  if (!plain_.defined() || plain_.numel() < numbers_ || plain_.scalar_type() != type) {
    plain_ = at::empty({numbers_}, at::device(device).dtype(type));
  }
  if (tables_.defined()) return;
  std::vector<float> values(nf4Table().begin(), nf4Table().end());
  values.insert(values.end(), dynamicMap().begin(), dynamicMap().end());
  tables_ = at::tensor(values).to(device);
}

at::Tensor QuantisedScratch::plain(const Quantised& q, at::ScalarType type) {
  add(q);
  reserve(q.codes.device(), type);
  return plain_.narrow(0, 0, q.outputs() * q.inputs()).view({q.outputs(), q.inputs()});
}

const at::Tensor& QuantisedScratch::tables(const Quantised& q, at::ScalarType type) {
  reserve(q.codes.device(), type);
  return tables_;
}

bool fitsGpuKernels(const Quantised& q, at::ScalarType type) {
  return (type == at::kBFloat16 || type == at::kFloat) && q.inputs() % 8 == 0 &&
         q.parts.size() <= cuda::kMostNf4Parts;
}

void gpuForwardInto(const GpuKernels& kernels, const Quantised& q, QuantisedScratch& scratch,
                    const at::Tensor& y_TO, const at::Tensor& x_TI, const Into& into) {
  if (fitsProduct(y_TO, x_TI)) {
    return startQuantisedProduct(kernels, q, scratch.tables(q, x_TI.scalar_type()), y_TO, x_TI,
                                 into);
  }
  const at::Tensor w_OI = dequantised(kernels, q, scratch, x_TI.scalar_type());
  libraryProductInto(y_TO, x_TI, w_OI.t(), startFrom(y_TO, into), into.scale);
}

void gpuBackwardInto(const GpuKernels& kernels, const Quantised& q, QuantisedScratch& scratch,
                     const at::Tensor& dx_TI, const at::Tensor& dy_TO, const Into& into) {
  const at::Tensor w_OI = dequantised(kernels, q, scratch, dy_TO.scalar_type());
  libraryProductInto(dx_TI, dy_TO, w_OI, into.add, into.scale);
}

void startDequantise(const GpuKernels& kernels, const Quantised& q, const at::Tensor& tables,
                     const at::Tensor& w_OI) {
  const LaunchSize blocks =
      grid(cuda::dequantiseRowBlocks(q.outputs()), cuda::dequantiseBlocks(q.inputs()));
  if (q.kind == Quantization::kNf4) {
    start(kernels, w_OI, KernelId::dequantise_nf4_bf16, KernelId::dequantise_nf4_fp32, blocks,
          cuda::DequantiseNf4Args{nf4Matrix(q, tables), w_OI.data_ptr()});
  } else {
    start(kernels, w_OI, KernelId::dequantise_int8_bf16, KernelId::dequantise_int8_fp32, blocks,
          cuda::DequantiseInt8Args{int8Matrix(q), w_OI.data_ptr()});
  }
}

void startQuantisedProduct(const GpuKernels& kernels, const Quantised& q, const at::Tensor& tables,
                           const at::Tensor& y_TO, const at::Tensor& x_TI, const Into& into) {
  const LaunchSize blocks =
      grid(cuda::quantisedRowTiles(x_TI.size(0)), cuda::quantisedBlocks(q.outputs()));
  const at::Tensor bias_O = into.bias_O.defined() ? into.bias_O.contiguous() : at::Tensor();
  const auto argsOf = [&](const auto& w) {
    return cuda::QuantisedProductArgs<std::decay_t<decltype(w)>>{
        .w = w,
        .x_NI = x_TI.const_data_ptr(),
        .y_NO = y_TO.data_ptr(),
        .bias_O = bias_O.defined() ? bias_O.const_data_ptr() : nullptr,
        .xStride = size(x_TI.stride(0)),
        .yStride = size(y_TO.stride(0)),
        .rows = size(x_TI.size(0)),
        .add = into.add && !bias_O.defined(),
        .scale = static_cast<float>(into.scale)};
  };
  if (q.kind == Quantization::kNf4) {
    start(kernels, x_TI, KernelId::product_nf4_bf16, KernelId::product_nf4_fp32, blocks,
          argsOf(nf4Matrix(q, tables)));
  } else {
    start(kernels, x_TI, KernelId::product_int8_bf16, KernelId::product_int8_fp32, blocks,
          argsOf(int8Matrix(q)));
  }
}

}  // namespace acoer
