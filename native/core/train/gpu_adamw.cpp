#include "train/gpu_adamw.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "kernels/gpu/kernels.h"
#include "ops/ops.h"

namespace acoer {

namespace {

bool takes(const at::Tensor& x) { return x.scalar_type() == at::kFloat && x.is_contiguous(); }

// False: a kernel does not take the parameter.
bool describe(const Parameter& parameter, const at::Tensor& gradients, cuda::AdamWTensor& to) {
  for (const at::Tensor& x : {parameter.value, parameter.expAvg, parameter.expAvgSq}) {
    if (!takes(x)) return false;
  }
  if (gradients.defined()) to.gradient = gradients.const_data_ptr<float>() + parameter.offset;
  to.value = static_cast<float*>(parameter.value.mutable_data_ptr());
  to.expAvg = static_cast<float*>(parameter.expAvg.mutable_data_ptr());
  to.expAvgSq = static_cast<float*>(parameter.expAvgSq.mutable_data_ptr());
  to.count = parameter.value.numel();
  return true;
}

}  // namespace

std::optional<GpuAdamW> GpuAdamW::of(const Policy& policy, const at::Tensor& gradients) {
  const GpuKernels* kernels = policy.model->kernels;
  if (kernels == nullptr || policy.parameters.empty()) return std::nullopt;
  std::vector<cuda::AdamWTensor> tensors;
  GpuAdamW step;
  int64_t blocks = 0;
  for (const bool decays : {true, false}) {
    Group group{.decays = decays, .first = std::ssize(tensors)};
    for (const Parameter& parameter : policy.parameters) {
      if (parameter.decays() != decays) continue;
      cuda::AdamWTensor tensor{};
      if (!describe(parameter, gradients, tensor)) return std::nullopt;
      tensor.firstBlock = group.blocks;
      group.blocks += cuda::adamWBlocks(tensor.count);
      ++group.count;
      tensors.push_back(tensor);
    }
    blocks += group.blocks;
    if (group.blocks > 0) step.groups_.push_back(group);
  }
  if (blocks == 0 || blocks > std::numeric_limits<int32_t>::max()) return std::nullopt;
  const auto bytes = static_cast<int64_t>(tensors.size() * sizeof(cuda::AdamWTensor));
  step.kernels_ = kernels;
  step.table_ =
      onDevice(at::from_blob(tensors.data(), {bytes}, at::kByte).clone(), policy.model->device);
  step.sums_B = at::empty({blocks}, at::device(policy.model->device).dtype(at::kFloat));
  return step;
}

const cuda::AdamWTensor* GpuAdamW::entries(const Group& group) const {
  return static_cast<const cuda::AdamWTensor*>(table_.const_data_ptr()) + group.first;
}

double GpuAdamW::gradientNorm() const {
  auto* groupSums = static_cast<float*>(sums_B.mutable_data_ptr());
  for (const Group& group : groups_) {
    const cuda::GradientSquaresArgs args{.tensors = entries(group),
                                         .sums_B = groupSums,
                                         .tensorCount = static_cast<int32_t>(group.count)};
    kernels_->launch(cuda::KernelId::gradient_squares, {static_cast<uint32_t>(group.blocks), 1, 1},
                     args, currentGpuStream(table_.device()));
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
  for (const Group& group : groups_) {
    const double decay = group.decays ? options.weightDecay : 0;
    const cuda::AdamWArgs args{
        .tensors = entries(group),
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
                     currentGpuStream(table_.device()));
  }
}

}  // namespace acoer
