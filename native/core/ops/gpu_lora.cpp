#include "ops/gpu_lora.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "kernels/gpu/kernels.h"

namespace acoer {
namespace {

using cuda::KernelId;

// Multiply-adds of a group. The kernels have no tensor cores: at a third of the 19.5 TFLOP/s that
// an A100 does in fp32 without them, so many take the 2.6 us that two launches save (decision
// 0293). No card has confirmed it.
constexpr int64_t kMostProducts = int64_t{1} << 23;

int32_t size(int64_t n) { return static_cast<int32_t>(n); }

LaunchSize grid(int x, int y) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1}; }

template <class Args>
void start(const GpuKernels& kernels, const at::Tensor& x, KernelId bf16, KernelId fp32,
           LaunchSize size, const Args& args) {
  kernels.launch(x.scalar_type() == at::kBFloat16 ? bf16 : fp32, size, args,
                 currentGpuStream(x.device()));
}

cuda::LoraAddArgs additionOf(const AdapterGroup& group, const at::Tensor& t_NR,
                             const at::Tensor& y_NO) {
  cuda::LoraAddArgs args{.ranks_NR = t_NR.const_data_ptr(),
                         .bT_RO = group.bT_RO.const_data_ptr(),
                         .y_NO = y_NO.data_ptr(),
                         .adapters = {},
                         .rows = size(t_NR.size(0)),
                         .ranks = size(group.ranks),
                         .outputs = size(y_NO.size(1))};
  cuda::LoraAdapter* adapter = args.adapters;
  if (group.blocks.size() > cuda::kLoraMostAdapters) {
    fail(ErrorCode::kInternal, "a fused linear has ", group.blocks.size(), " adapters");
  }
  for (const AdapterGroup::Block& block : group.blocks) {
    *adapter++ = {size(block.firstRank), size(block.ranks), size(block.firstColumn),
                  size(block.columns)};
  }
  return args;
}

}  // namespace

bool fitsLoraKernels(const AdapterGroup& group, int64_t rows) {
  int64_t products = group.ranks * group.a.inputs();
  for (const AdapterGroup::Block& block : group.blocks) products += block.ranks * block.columns;
  return rows * products <= kMostProducts;
}

void startLoraRanks(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& x_NI,
                    const at::Tensor& t_NR) {
  const int64_t rows = x_NI.size(0);
  start(kernels, x_NI, KernelId::lora_ranks_bf16, KernelId::lora_ranks_fp32,
        grid(cuda::loraTiles(group.ranks), cuda::loraTiles(rows)),
        cuda::LoraRanksArgs{.x_NI = x_NI.const_data_ptr(),
                            .a_RI = group.a.plain().const_data_ptr(),
                            .ranks_NR = t_NR.data_ptr(),
                            .rows = size(rows),
                            .ranks = size(group.ranks),
                            .inputs = size(x_NI.size(1))});
}

void startLoraAdd(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& t_NR,
                  const at::Tensor& y_NO) {
  start(kernels, y_NO, KernelId::lora_add_bf16, KernelId::lora_add_fp32,
        grid(cuda::loraAddBlocks(y_NO.size(1)), cuda::loraAddRowBlocks(y_NO.size(0))),
        additionOf(group, t_NR, y_NO));
}

void startLoraSwiglu(const GpuKernels& kernels, const AdapterGroup& group, const at::Tensor& t_NR,
                     const at::Tensor& gateUp_N2F, const at::Tensor& act_NF) {
  start(kernels, act_NF, KernelId::lora_swiglu_bf16, KernelId::lora_swiglu_fp32,
        grid(cuda::loraAddBlocks(act_NF.size(1)), cuda::loraAddRowBlocks(act_NF.size(0))),
        cuda::LoraSwigluArgs{additionOf(group, t_NR, gateUp_N2F), act_NF.data_ptr()});
}

}  // namespace acoer
