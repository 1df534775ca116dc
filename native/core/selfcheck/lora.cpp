// The products of adapters in decoding.
#include <ATen/ATen.h>

#include <cmath>

#include "ops/gpu_lora.h"
#include "ops/ops.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

constexpr int64_t kRank = 15;  // the last tile of the ranks is not full

// Adapters of gate and up.
AdapterGroup gateUpGroup(Figures& figures) {
  const int64_t D = figures.spec().hiddenSize, F = figures.spec().intermediateSize;
  AdapterGroup group;
  group.ranks = 2 * kRank;
  group.a = Matrix(figures.normal({2 * kRank, D}, 0, 1 / std::sqrt(static_cast<double>(D))));
  group.bT_RO = at::zeros({2 * kRank, 2 * F}, at::device(figures.device()).dtype(figures.dtype()));
  for (const int64_t i : {0, 1}) {
    const AdapterGroup::Block block{
        .firstRank = i * kRank, .ranks = kRank, .firstColumn = i * F, .columns = F, .b = {}};
    group.bT_RO.narrow(0, block.firstRank, kRank)
        .narrow(1, block.firstColumn, F)
        .copy_(figures.normal({kRank, F}, 0, 0.1));
    group.blocks.push_back(block);
  }
  return group;
}

void checkRows(Figures& figures, const AdapterGroup& group, int64_t rows) {
  const GpuKernels& kernels = figures.kernels();
  const int64_t F = figures.spec().intermediateSize;
  const auto wide = [](const at::Tensor& x) { return x.to(at::kFloat); };
  figures.begin(figures.typed("lora_ranks"));
  const at::Tensor x_ND = figures.normal({rows, figures.spec().hiddenSize});
  const Guarded found_NR({rows, group.ranks}, figures.dtype(), figures.device());
  startLoraRanks(kernels, group, x_ND, found_NR.tensor());
  figures.expectNear(found_NR, at::mm(wide(x_ND), wide(group.a.plain()).t()));

  const at::Tensor t_NR = figures.normal({rows, group.ranks});
  const at::Tensor gateUp_N2F = figures.normal({rows, 2 * F});
  const at::Tensor exact_N2F = at::addmm(wide(gateUp_N2F), wide(t_NR), wide(group.bT_RO));
  figures.begin(figures.typed("lora_swiglu"));
  const Guarded act_NF({rows, F}, figures.dtype(), figures.device());
  startLoraSwiglu(kernels, group, t_NR, gateUp_N2F, act_NF.tensor());
  figures.expectNear(act_NF, swiglu(exact_N2F));

  figures.begin(figures.typed("lora_add"));
  const Guarded sum_N2F(gateUp_N2F);
  startLoraAdd(kernels, group, t_NR, sum_N2F.tensor());
  figures.expectNear(sum_N2F, exact_N2F);
}

}  // namespace

void checkLora(Figures& figures) {
  const AdapterGroup group = gateUpGroup(figures);
  for (const int64_t rows : {1, 17}) checkRows(figures, group, rows);
}

}  // namespace acoer
