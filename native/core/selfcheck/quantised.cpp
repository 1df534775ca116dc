// Quantised matrices made plain, and products of few rows straight from their codes.
#include <ATen/ATen.h>

#include "matrix/gpu_quantised.h"
#include "matrix/matrix.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

// Random codes and scales: every number that a file may hold.
Quantised randomQuantised(Figures& figures, const std::vector<int64_t>& partRows, int64_t inputs) {
  Quantised q = allocateQuantised(figures.quantization(), partRows, inputs);
  q.codes.view(at::kByte).copy_(figures.bytes(q.codes.sizes()));
  const auto positive = [&](const at::Tensor& numbers, double mean) {
    numbers.copy_(figures.normalIn(at::kFloat, numbers.sizes(), mean, mean / 5).cpu());
  };
  if (q.kind == Quantization::kInt8) {
    positive(q.scales, 0.2);
  } else {
    q.scales.copy_(figures.bytes(q.scales.sizes()));
    positive(q.groups, 0.1);
    for (size_t p = 0; p < q.parts.size(); ++p)
      q.parts[p].offset = 0.1f + 0.01f * static_cast<float>(p);
  }
  return q.to(figures.device());
}

void checkMatrix(Figures& figures, const std::vector<int64_t>& partRows, int64_t inputs) {
  const Quantised q = randomQuantised(figures, partRows, inputs);
  const std::string kind = quantizationName(q.kind);
  const GpuKernels& kernels = figures.kernels();
  const at::Tensor exact_OI = dequantisedRows(q, 0, q.outputs(), figures.dtype());
  QuantisedScratch scratch;
  const at::Tensor tables = scratch.tables(q, figures.dtype());
  figures.begin(figures.typed("dequantise_" + kind));
  const Guarded found_OI({q.outputs(), inputs}, figures.dtype(), figures.device());
  startDequantise(kernels, q, tables, found_OI.tensor());
  figures.expectUntouched(found_OI);
  figures.expect(at::equal(found_OI.tensor(), exact_OI) ? 0 : 1, 0);

  figures.begin(figures.typed("product_" + kind));
  const at::Tensor wide_IO = exact_OI.to(at::kFloat).t();
  // The tiles of the kernel: 4, 8 and 16 rows, which are full and which are not.
  for (const int64_t rows : {1, 7, 16, 17, 32}) {
    const at::Tensor x_NI = figures.normal({rows, inputs});
    const at::Tensor y_NO = figures.normal({rows, q.outputs()});
    const at::Tensor product_NO = at::mm(x_NI.to(at::kFloat), wide_IO);
    const Guarded sum_NO(y_NO);
    startQuantisedProduct(kernels, q, tables, sum_NO.tensor(), x_NI, {.add = true});
    figures.expectNear(sum_NO, product_NO + y_NO.to(at::kFloat));
    const Guarded alone_NO({rows, q.outputs()}, figures.dtype(), figures.device());
    startQuantisedProduct(kernels, q, tables, alone_NO.tensor(), x_NI,
                          {.scale = 0.5, .bias_O = y_NO[0]});
    figures.expectNear(alone_NO, 0.5 * product_NO + y_NO[0].to(at::kFloat));
  }
}

}  // namespace

void checkQuantised(Figures& figures) {
  const ModelSpec& spec = figures.spec();
  checkMatrix(figures, {spec.qRows(), spec.kvRows(), spec.kvRows()}, spec.hiddenSize);
  checkMatrix(figures, {spec.hiddenSize}, spec.intermediateSize);
}

}  // namespace acoer
