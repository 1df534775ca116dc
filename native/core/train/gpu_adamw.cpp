#include "train/gpu_adamw.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "kernels/gpu/kernels.h"
#include "ops/ops.h"

namespace acoer {

namespace {

bool takes(const at::Tensor& x) { return x.scalar_type() == at::kFloat && x.is_contiguous(); }

// False: a kernel does not take the parameter. Without `own` the entry is for its gradient's norm.
bool describe(const Parameter& parameter, const at::Tensor& gradients, bool own,
              cuda::AdamWTensor& to) {
  for (const at::Tensor& x : {parameter.value, parameter.expAvg, parameter.expAvgSq}) {
    if (!takes(x)) return false;
  }
  const int64_t first = own ? parameter.ownBegin : 0;
  if (gradients.defined())
    to.gradient = gradients.const_data_ptr<float>() + parameter.offset + first;
  to.count = own ? parameter.ownEnd - first : parameter.value.numel();
  if (!own) return true;
  to.value = static_cast<float*>(parameter.value.mutable_data_ptr()) + first;
  to.expAvg = static_cast<float*>(parameter.expAvg.mutable_data_ptr());
  to.expAvgSq = static_cast<float*>(parameter.expAvgSq.mutable_data_ptr());
  return true;
}

}  // namespace

std::optional<GpuAdamW::Table> GpuAdamW::tableOf(const Policy& policy, const at::Tensor& gradients,
                                                 bool own) {
  std::vector<cuda::AdamWTensor> tensors;
  Table table;
  for (const bool decays : {true, false}) {
    Group group{.decays = decays, .first = std::ssize(tensors)};
    for (const Parameter& parameter : policy.parameters) {
      if (parameter.decays() != decays) continue;
      if (own && parameter.ownBegin == parameter.ownEnd) continue;
      cuda::AdamWTensor tensor{};
      if (!describe(parameter, gradients, own, tensor)) return std::nullopt;
      tensor.firstBlock = group.blocks;
      group.blocks += cuda::adamWBlocks(tensor.count);
      ++group.count;
      tensors.push_back(tensor);
    }
    table.blocks += group.blocks;
    if (group.blocks > 0) table.groups.push_back(group);
  }
  if (table.blocks > std::numeric_limits<int32_t>::max()) return std::nullopt;
  const auto bytes = static_cast<int64_t>(tensors.size() * sizeof(cuda::AdamWTensor));
  table.entries =
      onDevice(at::from_blob(tensors.data(), {bytes}, at::kByte).clone(), policy.model->device);
  return table;
}

std::optional<GpuAdamW> GpuAdamW::of(const Policy& policy, const at::Tensor& gradients) {
  const GpuKernels* kernels = policy.model->kernelsOf(KernelFamily::kAdamW);
  if (kernels == nullptr || policy.parameters.empty()) return std::nullopt;
  const bool sharded = policy.options.shard.count > 1;
  const auto own = tableOf(policy, gradients, true);
  const auto all = sharded ? tableOf(policy, gradients, false) : own;
  if (!own || !all || all->blocks == 0) return std::nullopt;
  GpuAdamW step;
  step.kernels_ = kernels;
  step.own_ = *own;
  step.all_ = *all;
  step.sums_B = at::empty({all->blocks}, at::device(policy.model->device).dtype(at::kFloat));
  return step;
}

const cuda::AdamWTensor* GpuAdamW::Table::of(const Group& group) const {
  return static_cast<const cuda::AdamWTensor*>(entries.const_data_ptr()) + group.first;
}

double GpuAdamW::gradientNorm() const {
  auto* groupSums = static_cast<float*>(sums_B.mutable_data_ptr());
  for (const Group& group : all_.groups) {
    const cuda::GradientSquaresArgs args{.tensors = all_.of(group),
                                         .sums_B = groupSums,
                                         .tensorCount = static_cast<int32_t>(group.count)};
    kernels_->launch(cuda::KernelId::gradient_squares, {static_cast<uint32_t>(group.blocks), 1, 1},
                     args, currentGpuStream(sums_B.device()));
    groupSums += group.blocks;
  }
  const at::Tensor host_B = sums_B.to(at::kCPU);
  const auto* sums = host_B.const_data_ptr<float>();
  double total = 0;
  for (int64_t b = 0; b < host_B.numel(); ++b) total += double{sums[b]};
  return std::sqrt(total);
}

void GpuAdamW::update(const PolicyOptions& betas, const StepOptions& options, double clip,
                      double time) const {
  const auto narrow = [](double x) { return static_cast<float>(x); };
  for (const Group& group : own_.groups) {
    const double decay = group.decays ? options.weightDecay : 0;
    const cuda::AdamWArgs args{
        .tensors = own_.of(group),
        .tensorCount = static_cast<int32_t>(group.count),
        .clip = narrow(clip),
        .keep = narrow(1 - options.learningRate * decay),
        .oneMinusBeta1 = narrow(1 - betas.beta1),
        .beta2 = narrow(betas.beta2),
        .oneMinusBeta2 = narrow(1 - betas.beta2),
        .rootCorrection2 = narrow(std::sqrt(1 - std::pow(betas.beta2, time))),
        .eps = narrow(betas.eps),
        .stepSize = narrow(options.learningRate / (1 - std::pow(betas.beta1, time)))};
    kernels_->launch(cuda::KernelId::adamw, {static_cast<uint32_t>(group.blocks), 1, 1}, args,
                     currentGpuStream(sums_B.device()));
  }
}

}  // namespace acoer
