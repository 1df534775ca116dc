// The products of adapters by our CUDA kernels, as decoding starts them, against libtorch's. On a
// CPU the kernels are emulated. Nothing here has run on a GPU.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "check.h"
#include "device_models.h"
#include "emulated_gpu.h"
#include "kernels/gpu/kernels.h"
#include "model/lora.h"
#include "ops/gpu_lora.h"
#include "ops/ops.h"

namespace acoer::check {
namespace {

// Other ranks in every linear, and linears without an adapter.
const std::vector<std::vector<LoraMatrix>> kRagged{
    {{0, kQ, 3, 8},
     {0, kK, 8, 8},
     {0, kV, 5, 8},
     {0, kO, 16, 8},
     {0, kGate, 2, 8},
     {0, kUp, 17, 8},
     {0, kDown, 1, 8}},
    {{0, kV, 6, 8}, {0, kUp, 4, 8}},
};

DecodeAdapter makeAdapter(const std::vector<LoraMatrix>& matrices, at::ScalarType dtype) {
  PolicyOptions options;
  options.matrices = matrices;
  const auto model = randomModel(smallSpec(), checkDevice(), dtype, 3);
  const auto policy = createPolicy(model, options);
  const c10::NoGradGuard noGrad;
  for (LoraPair& pair : policy->lora[0]) {
    if (pair.defined()) pair.b_OR.normal_(0, 0.1);
  }
  return makeDecodeAdapter(*policy, Matrix::Form::kPlain);
}

// One rounding of the low-rank products, and one of the sum. They differ where a sum in another
// order carries a value over the border between two neighbours.
void checkNear(const at::Tensor& found, const at::Tensor& expected) {
  const bool bf16 = found.scalar_type() == at::kBFloat16;
  const at::Tensor want = expected.to(at::kDouble);
  const at::Tensor off = (found.to(at::kDouble) - want).abs() / (want.abs() + 0.1);
  ACOER_CHECK_LE(off.max().item<double>(), bf16 ? 0.02 : 1e-5);
  if (bf16) ACOER_CHECK_LE((off > 0).to(at::kDouble).mean().item<double>(), 0.02);
}

struct Products {
  at::Tensor x_NI, t_NR, y_NO;
};

Products makeProducts(const AdapterGroup& group, int64_t rows) {
  const auto options = group.bT_RO.options();
  at::manual_seed(rows);
  return {at::randn({rows, group.a.inputs()}, options), at::empty({rows, group.ranks}, options),
          at::randn({rows, group.bT_RO.size(1)}, options)};
}

at::Tensor byTheLibrary(const AdapterGroup& group, const Products& in) {
  return at::addmm(in.y_NO, at::mm(in.x_NI, group.a.plain().t()), group.bT_RO);
}

void checkGroup(const AdapterGroup& group, int64_t rows) {
  const Products in = makeProducts(group, rows);
  const at::Tensor expected = byTheLibrary(group, in);
  ACOER_CHECK(fitsLoraKernels(group, rows));
  startLoraRanks(*kernelsToCheck(), group, in.x_NI, in.t_NR);
  startLoraAdd(*kernelsToCheck(), group, in.t_NR, in.y_NO);
  checkNear(in.y_NO, expected);
}

void checkGateUp(const AdapterGroup& group, int64_t rows) {
  const Products in = makeProducts(group, rows);
  const at::Tensor expected = swiglu(byTheLibrary(group, in));
  const at::Tensor act_NF = at::empty_like(expected);
  startLoraRanks(*kernelsToCheck(), group, in.x_NI, in.t_NR);
  startLoraSwiglu(*kernelsToCheck(), group, in.t_NR, in.y_NO, act_NF);
  checkNear(act_NF, expected);
}

ACOER_TEST(gpu_kernels_lora_like_the_library) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::vector<LoraMatrix>& matrices : kRagged) {
      const DecodeAdapter adapter = makeAdapter(matrices, dtype);
      const DecodeAdapter::Layer& layer = adapter.layers[0];
      for (const int64_t rows : {1, 3, 16, 37}) {
        for (const AdapterGroup& group : {layer.qkv, layer.o, layer.gateUp, layer.down}) {
          if (group.defined()) checkGroup(group, rows);
        }
        checkGateUp(layer.gateUp, rows);
      }
    }
  }
}

// A test of the test: each is a bug of lora.cuh that shows in sums of some adapter.
ACOER_TEST(gpu_kernels_lora_shows_bugs) {
  if (!checkDevice().is_cpu()) return;
  const DecodeAdapter adapter = makeAdapter(kRagged[0], at::kFloat);
  const AdapterGroup& group = adapter.layers[0].gateUp;
  for (const int bug : {55, 59}) {
    const PlantedBug planted(bug);
    ACOER_CHECK_THROWS(checkGateUp(group, 16), ErrorCode::kInternal, "off.max()");
  }
}

// Few rows of a usual adapter, fewer of a wide one.
ACOER_TEST(gpu_kernels_lora_takes_few_rows) {
  const auto groupOf = [](int64_t rank) {
    AdapterGroup group;
    group.ranks = 2 * rank;
    group.a = Matrix(at::empty({2 * rank, 2048}, at::kBFloat16));
    group.blocks = {
        {.firstRank = 0, .ranks = rank, .firstColumn = 0, .columns = 6144, .b = {}},
        {.firstRank = rank, .ranks = rank, .firstColumn = 6144, .columns = 6144, .b = {}}};
    return group;
  };
  ACOER_CHECK(fitsLoraKernels(groupOf(16), 32) && !fitsLoraKernels(groupOf(16), 33));
  ACOER_CHECK(fitsLoraKernels(groupOf(64), 8) && !fitsLoraKernels(groupOf(64), 9));
}

}  // namespace
}  // namespace acoer::check
