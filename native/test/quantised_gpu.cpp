// Products of quantised matrices by our CUDA kernels, and decoding with them, against the CPU's way
// with the same weights. On a CPU the kernels are emulated. Nothing here has run on a GPU.
#include <ATen/ATen.h>

#include "check.h"
#include "device_models.h"
#include "emulated_gpu.h"
#include "generate_support.h"
#include "matrix/gpu_quantised.h"

namespace acoer::check {
namespace {

constexpr Quantization kKinds[] = {Quantization::kNf4, Quantization::kInt8};

Matrix randomMatrix(Quantization kind, at::ScalarType dtype, const std::vector<int64_t>& partRows,
                    int64_t inputs) {
  Quantised quantised = allocateQuantised(kind, partRows, inputs);
  at::manual_seed(inputs);
  for (size_t i = 0; i < partRows.size(); ++i) {
    const double size = 0.05 + 0.1 * static_cast<double>(i);
    quantisePart(quantised, i, at::randn({partRows[i], inputs}, at::kFloat) * size);
  }
  return Matrix(quantised.to(checkDevice()), dtype);
}

// One rounding to the type, at the end.
void checkNear(const at::Tensor& found, const at::Tensor& exact) {
  const bool bf16 = found.scalar_type() == at::kBFloat16;
  const double bound = bf16 ? 0x1.02p-8 : 0;
  const at::Tensor off = (found.to(at::kDouble) - exact).abs() - bound * exact.abs();
  ACOER_CHECK_LE(off.max().item<double>(), 1e-5 * exact.abs().max().item<double>());
}

// Rows that are parts of longer ones.
at::Tensor wideRows(int64_t rows, int64_t columns, at::ScalarType dtype) {
  const auto options = at::device(checkDevice()).dtype(dtype);
  return at::randn({rows, columns + 24}, options).narrow(1, 8, columns);
}

void checkForward(const Matrix& w, int64_t rows) {
  const GpuKernels* kernels = kernelsToCheck();
  const at::Tensor x_NI = wideRows(rows, w.inputs(), w.type());
  const at::Tensor exact = x_NI.to(at::kDouble).mm(w.values().to(at::kDouble).t());
  const at::Tensor y_NO = wideRows(rows, w.outputs(), w.type()), before = y_NO.clone();
  w.forwardInto(y_NO, x_NI, {.kernels = kernels});
  checkNear(y_NO, exact);
  y_NO.copy_(before);
  w.forwardInto(y_NO, x_NI, {.add = true, .scale = 0.5, .kernels = kernels});
  checkNear(y_NO, before.to(at::kDouble) + 0.5 * exact);
  const at::Tensor bias_O = before[0].clone();
  w.forwardInto(y_NO, x_NI, {.bias_O = bias_O, .kernels = kernels});
  checkNear(y_NO, bias_O.to(at::kDouble) + exact);
}

void checkBackward(const Matrix& w, int64_t rows) {
  const GpuKernels* kernels = kernelsToCheck();
  const at::Tensor dy_NO = wideRows(rows, w.outputs(), w.type());
  const at::Tensor exact = dy_NO.to(at::kDouble).mm(w.values().to(at::kDouble));
  checkNear(w.backward(dy_NO, kernels), exact);
  const at::Tensor dx_NI = wideRows(rows, w.inputs(), w.type()), before = dx_NI.clone();
  w.backwardInto(dx_NI, dy_NO, {.add = true, .scale = 2, .kernels = kernels});
  checkNear(dx_NI, before.to(at::kDouble) + 2 * exact);
}

ACOER_TEST(gpu_kernels_quantised_products) {
  for (const Quantization kind : kKinds) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      const Matrix fused = randomMatrix(kind, dtype, {40, 24, 7}, 192);
      const Matrix one = randomMatrix(kind, dtype, {72}, 448);
      for (const int64_t rows : {1, 6, 17, 32, 33}) {
        checkForward(fused, rows);
        checkForward(one, rows);
      }
      checkBackward(fused, 5);
      checkBackward(one, 40);
    }
  }
}

// A test of the test.
ACOER_TEST(gpu_kernels_quantised_products_show_bugs) {
  if (!checkDevice().is_cpu()) return;
  const Matrix w = randomMatrix(Quantization::kNf4, at::kFloat, {40, 24, 7}, 192);
  for (const int bug : {61, 63}) {
    const PlantedBug planted(bug);
    for (const int64_t rows : {3, 33}) {
      ACOER_CHECK_THROWS(checkForward(w, rows), ErrorCode::kInternal, "off.max()");
    }
  }
}

// What kernels do not take is multiplied all the same.
ACOER_TEST(gpu_kernels_quantised_leave_what_they_cannot) {
  const Matrix narrow = randomMatrix(Quantization::kInt8, at::kFloat, {16}, 12);
  ACOER_CHECK(!fitsGpuKernels(*narrow.quantised(), at::kFloat));
  checkForward(narrow, 3);
  const Matrix wide = randomMatrix(Quantization::kNf4, at::kDouble, {16}, 64);
  ACOER_CHECK(!fitsGpuKernels(*wide.quantised(), at::kDouble));
  checkForward(wide, 3);
  // Rows that begin where no vector does.
  const Matrix w = randomMatrix(Quantization::kNf4, at::kFloat, {16}, 64);
  const at::Tensor x_NI = at::randn({3, 67}, at::device(checkDevice())).narrow(1, 1, 64);
  const at::Tensor y_NO = at::empty({3, 16}, x_NI.options());
  w.forwardInto(y_NO, x_NI, {.kernels = kernelsToCheck()});
  checkNear(y_NO, x_NI.to(at::kDouble).mm(w.values().to(at::kDouble).t()));
}

// Graphs hold the address of the scratch: it stays from the first product on.
ACOER_TEST(gpu_kernels_quantised_share_one_scratch) {
  QuantisedScratch scratch;
  const Matrix small = randomMatrix(Quantization::kNf4, at::kBFloat16, {16}, 64);
  const Matrix large = randomMatrix(Quantization::kNf4, at::kBFloat16, {48}, 128);
  for (const Matrix* w : {&small, &large}) scratch.add(*w->quantised());
  const at::Tensor first = scratch.plain(*small.quantised(), at::kBFloat16);
  const void* tables = scratch.tables(*small.quantised(), at::kBFloat16).const_data_ptr();
  ACOER_CHECK(first.storage().nbytes() == 48 * 128 * 2);
  ACOER_CHECK(scratch.plain(*large.quantised(), at::kBFloat16).data_ptr() == first.data_ptr());
  ACOER_CHECK(scratch.tables(*large.quantised(), at::kBFloat16).const_data_ptr() == tables);
}

std::shared_ptr<Model> quantisedModel(const ModelSpec& spec, at::ScalarType dtype,
                                      Quantization kind, const GpuKernels* kernels) {
  auto model = randomModel(spec, checkDevice(), dtype, 3);
  quantise(*model, kind);
  model->kernels = kernels;
  return model;
}

// Prompts of fewer and of more rows than are multiplied from the codes.
std::vector<GenerateRequest> requestsFor(const ModelSpec& spec, const Policy* policy) {
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {2, 17, 60}) {
    requests.push_back(
        makeRequest(randomIds(spec, length, static_cast<uint64_t>(length)), 2, 19, policy));
    requests.back().seed = static_cast<uint64_t>(length);
  }
  return requests;
}

// Sampled with our kernels, scored the CPU's way over the same quantised weights.
void checkDecodes(const ModelSpec& spec, at::ScalarType dtype, Quantization kind, double bound) {
  const auto model = quantisedModel(spec, dtype, kind, kernelsToCheck());
  const auto adapter = strongAdapter(model, 5);
  const auto onCpu = quantisedModel(spec, dtype, kind, nullptr);
  const auto sameAdapter = strongAdapter(onCpu, 5);
  const GraphCounts before = graphCounts();
  std::vector<GenerateRequest> requests = requestsFor(spec, adapter.get());
  for (const GenerateRequest& request : requestsFor(spec, nullptr)) requests.push_back(request);
  const Generated got = collect(*model, requests);
  ACOER_CHECK(got.stats.fallback.empty());
  if (checkDevice().is_cpu()) ACOER_CHECK(graphCounts().replayed > before.replayed);
  for (GenerateRequest& request : requests) {
    if (request.policy != nullptr) request.policy = sameAdapter.get();
  }
  const ScoreGap gap = gapToScore(*onCpu, requests, got);
  std::printf("    log-probs %.1e at most, %.1e on average\n", gap.logprob, gap.meanLogprob);
  ACOER_CHECK_LE(gap.meanLogprob, bound);
  ACOER_CHECK_LE(gap.logprob, 20 * bound);
}

ModelSpec wideHeads() {
  ModelSpec spec = smallSpec();
  spec.headDim = 128;
  return spec;
}

ACOER_TEST(gpu_kernels_quantised_decode_like_the_cpu) {
  for (const Quantization kind : kKinds) {
    checkDecodes(smallSpec(), at::kFloat, kind, 1e-5);
    checkDecodes(wideHeads(), at::kBFloat16, kind, 0.02);
  }
  checkDecodes(qwen2Spec(), at::kFloat, Quantization::kNf4, 1e-5);
}

ACOER_TEST(gpu_kernels_quantised_decode_shows_bugs) {
  if (!checkDevice().is_cpu()) return;
  for (const int bug : {61, 63}) {
    const PlantedBug planted(bug);
    ACOER_CHECK_THROWS(checkDecodes(smallSpec(), at::kFloat, Quantization::kNf4, 1e-5),
                       ErrorCode::kInternal, "gap.");
  }
}

// The products of a family that is left out are libtorch's operations, whose steps are no graphs.
ACOER_TEST(gpu_kernels_quantised_faults_fall_back) {
  const auto model = quantisedModel(smallSpec(), at::kFloat, Quantization::kNf4, kernelsToCheck());
  const std::vector<GenerateRequest> requests = requestsFor(model->spec, nullptr);
  const Generated want = collect(*model, requests);
  model->kernelFaults[KernelFamily::kQuantised] = "wrong products";
  const GraphCounts before = graphCounts();
  const Generated got = collect(*model, requests);
  ACOER_CHECK(got.stats.fallback.find("wrong products") != std::string::npos);
  ACOER_CHECK(graphCounts().recorded == before.recorded);
  for (const auto& [key, sequence] : want.sequences) {
    checkSame(got.sequences.at(key), sequence, 1e-4);
  }
}

}  // namespace
}  // namespace acoer::check
