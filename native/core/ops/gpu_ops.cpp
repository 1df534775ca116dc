#include "ops/gpu_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "kernels/gpu/kernels.h"

namespace acoer {

namespace {

using cuda::KernelId;

// What is read as a vector begins and goes on at a multiple of it.
constexpr int64_t kPack = 8;
constexpr uintptr_t kPackBytes = 16;

bool fits32(int64_t n) { return n > 0 && n <= std::numeric_limits<int32_t>::max(); }

bool hasType(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kFloat;
}

bool alignedTo(const at::Tensor& x, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % bytes == 0;
}

// Rows [N, width] end to end that a kernel reads and writes in packs.
bool isPackedRows(const at::Tensor& x) {
  return x.dim() == 2 && hasType(x) && x.is_contiguous() && x.size(1) % kPack == 0 &&
         fits32(x.size(0)) && fits32(x.size(1)) && alignedTo(x, kPackBytes);
}

// A weight or table that goes with `x`.
bool goesWith(const at::Tensor& weight, const at::Tensor& x) {
  return weight.scalar_type() == x.scalar_type() && weight.is_contiguous() &&
         weight.size(-1) == x.size(-1) && alignedTo(weight, kPackBytes);
}

bool isHeads(const at::Tensor& x) {
  const auto pairBytes = static_cast<uintptr_t>(2 * x.element_size());
  return x.dim() == 3 && hasType(x) && x.stride(2) == 1 && x.stride(0) % 2 == 0 &&
         x.stride(1) % 2 == 0 && alignedTo(x, pairBytes) && fits32(x.size(0)) &&
         (x.size(2) == 64 || x.size(2) == 96 || x.size(2) == 128);
}

bool sameShape(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

bool takesHeads(const at::Tensor& x, const at::Tensor& weight, const Angles& angles) {
  return isHeads(x) && angles.cos_TK.defined() && (!weight.defined() || goesWith(weight, x)) &&
         goesWith(angles.cos_TK, x) && goesWith(angles.sin_TK, x) &&
         angles.cos_TK.size(0) == x.size(0) && angles.sin_TK.size(0) == x.size(0);
}

void* data(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }

cuda::HeadView viewOf(const at::Tensor& x) { return {data(x), x.stride(0), x.stride(1)}; }

LaunchSize grid(int64_t x, int64_t y = 1) {
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), 1};
}

template <class Args>
void start(const GpuKernels& kernels, const at::Tensor& x, KernelId bf16, KernelId fp32,
           LaunchSize size, const Args& args) {
  kernels.launch(x.scalar_type() == at::kBFloat16 ? bf16 : fp32, size, args,
                 currentGpuStream(x.device()));
}

at::Tensor inverseRmsOf(const at::Tensor& x) {
  auto shape = x.sizes().vec();
  shape.back() = 1;
  return at::empty(shape, x.options().dtype(at::kFloat));
}

Normed normRows(const GpuKernels& kernels, const at::Tensor& x, const at::Tensor& delta,
                const at::Tensor& weight, double eps) {
  const Normed out{at::empty_like(x), inverseRmsOf(x)};
  startNorm(kernels, x, delta, weight, eps, out);
  return out;
}

Normed normHeads(const GpuKernels& kernels, const at::Tensor& x, const at::Tensor& weight,
                 double eps, const Angles& angles) {
  const Normed out{at::empty(x.sizes(), x.options()),
                   weight.defined() ? inverseRmsOf(x) : at::Tensor()};
  startHeadNorm(kernels, x, weight, eps, angles, out);
  return out;
}

bool hasInverseRms(const NormInputs& in) {
  if (!in.weight.defined()) return true;
  return in.inverseRms.scalar_type() == at::kFloat && in.inverseRms.is_contiguous();
}

bool rowsBackward(const GpuKernels& kernels, const at::Tensor& dy, const NormInputs& in,
                  const at::Tensor& residual, const at::Tensor& dx) {
  const bool fits = isPackedRows(dy) && isPackedRows(in.x) && isPackedRows(dx) &&
                    sameShape(in.x, dy) && sameShape(dx, dy) && goesWith(in.weight, dy) &&
                    (!residual.defined() || (isPackedRows(residual) && sameShape(residual, dy)));
  if (!fits) return false;
  start(kernels, dy, KernelId::norm_backward_bf16, KernelId::norm_backward_fp32, grid(dy.size(0)),
        cuda::NormBackwardArgs{.dy_ND = data(dy),
                               .x_ND = data(in.x),
                               .inverseRms_N = in.inverseRms.const_data_ptr<float>(),
                               .weight_D = data(in.weight),
                               .residual_ND = data(residual),
                               .dx_ND = data(dx),
                               .width = static_cast<int32_t>(dy.size(1))});
  return true;
}

bool headsBackward(const GpuKernels& kernels, const at::Tensor& dy, const NormInputs& in,
                   const at::Tensor& dx) {
  const bool fits = takesHeads(dy, in.weight, in.angles) && isHeads(in.x) && isHeads(dx) &&
                    sameShape(in.x, dy) && sameShape(dx, dy);
  if (!fits) return false;
  start(kernels, dy, KernelId::head_norm_backward_bf16, KernelId::head_norm_backward_fp32,
        grid(dy.size(0), cuda::headNormBlocks(dy.size(1))),
        cuda::HeadNormBackwardArgs{.dy = viewOf(dy),
                                   .x = viewOf(in.x),
                                   .dx = viewOf(dx),
                                   .inverseRms_TH = static_cast<float*>(data(in.inverseRms)),
                                   .weight_K = data(in.weight),
                                   .cos_TK = data(in.angles.cos_TK),
                                   .sin_TK = data(in.angles.sin_TK),
                                   .heads = static_cast<int32_t>(dy.size(1)),
                                   .headDim = static_cast<int32_t>(dy.size(2))});
  return true;
}

}  // namespace

void startNorm(const GpuKernels& kernels, const at::Tensor& x_TD, const at::Tensor& delta_TD,
               const at::Tensor& weight_D, double eps, const Normed& out) {
  start(kernels, x_TD, KernelId::norm_bf16, KernelId::norm_fp32, grid(x_TD.size(0)),
        cuda::NormArgs{.x_ND = data(x_TD),
                       .delta_ND = data(delta_TD),
                       .weight_D = data(weight_D),
                       .normed_ND = data(out.y),
                       .width = static_cast<int32_t>(x_TD.size(1)),
                       .eps = static_cast<float>(eps),
                       .inverseRms_N = static_cast<float*>(data(out.inverseRms))});
}

void startHeadNorm(const GpuKernels& kernels, const at::Tensor& x_THK, const at::Tensor& weight_K,
                   double eps, const Angles& angles, const Normed& out) {
  start(kernels, x_THK, KernelId::head_norm_bf16, KernelId::head_norm_fp32,
        grid(x_THK.size(0), cuda::headNormBlocks(x_THK.size(1))),
        cuda::HeadNormArgs{.x = viewOf(x_THK),
                           .y = viewOf(out.y),
                           .inverseRms_TH = static_cast<float*>(data(out.inverseRms)),
                           .weight_K = data(weight_K),
                           .cos_TK = data(angles.cos_TK),
                           .sin_TK = data(angles.sin_TK),
                           .heads = static_cast<int32_t>(x_THK.size(1)),
                           .headDim = static_cast<int32_t>(x_THK.size(2)),
                           .eps = static_cast<float>(eps)});
}

void startSwiglu(const GpuKernels& kernels, const at::Tensor& gateUp_T2F,
                 const at::Tensor& act_TF) {
  start(kernels, gateUp_T2F, KernelId::swiglu_bf16, KernelId::swiglu_fp32,
        grid(act_TF.size(0), cuda::swigluBlocks(act_TF.size(1))),
        cuda::SwigluArgs{.gateUp_N2F = data(gateUp_T2F),
                         .act_NF = data(act_TF),
                         .width = static_cast<int32_t>(act_TF.size(1))});
}

void startSwigluBackward(const GpuKernels& kernels, const at::Tensor& dy_TF,
                         const at::Tensor& gateUp_T2F, const at::Tensor& d_T2F) {
  start(kernels, dy_TF, KernelId::swiglu_backward_bf16, KernelId::swiglu_backward_fp32,
        grid(dy_TF.size(0), cuda::swigluBlocks(dy_TF.size(1))),
        cuda::SwigluBackwardArgs{.dy_NF = data(dy_TF),
                                 .gateUp_N2F = data(gateUp_T2F),
                                 .dGateUp_N2F = data(d_T2F),
                                 .width = static_cast<int32_t>(dy_TF.size(1))});
}

void startDropoutMask(const DropoutPlan& plan, uint32_t threshold, uint64_t place,
                      const at::Tensor& mask_TW) {
  const int64_t tokens = mask_TW.size(0), width = mask_TW.size(1);
  auto* perToken = plan.onDevice_2T.mutable_data_ptr<int64_t>();
  start(*plan.kernels, mask_TW, KernelId::dropout_bf16, KernelId::dropout_fp32,
        grid(cuda::dropoutBlocks(tokens, width)),
        cuda::DropoutArgs{.sequences_T = reinterpret_cast<const uint64_t*>(perToken),
                          .positions_T = perToken + tokens,
                          .mask_TW = data(mask_TW),
                          .seed = plan.seed,
                          .place = place,
                          .tokens = tokens,
                          .width = static_cast<int32_t>(width),
                          .threshold = threshold,
                          .keep = static_cast<float>(65536.0 / (65536.0 - threshold))});
}

std::optional<Normed> gpuRmsRotate(const GpuKernels* kernels, const at::Tensor& x,
                                   const at::Tensor& weight, double eps, const Angles& angles) {
  if (kernels == nullptr) return std::nullopt;
  if (takesHeads(x, weight, angles)) return normHeads(*kernels, x, weight, eps, angles);
  const bool rows =
      weight.defined() && isPackedRows(x) && goesWith(weight, x) && !angles.cos_TK.defined();
  if (!rows) return std::nullopt;
  return normRows(*kernels, x, {}, weight, eps);
}

std::optional<Normed> gpuAddAndNorm(const GpuKernels* kernels, const at::Tensor& x_TD,
                                    const at::Tensor& delta_TD, const at::Tensor& weight_D,
                                    double eps) {
  const bool fits = kernels != nullptr && isPackedRows(x_TD) && isPackedRows(delta_TD) &&
                    sameShape(x_TD, delta_TD) && goesWith(weight_D, x_TD);
  if (!fits) return std::nullopt;
  return normRows(*kernels, x_TD, delta_TD, weight_D, eps);
}

bool gpuRmsRotateBackward(const GpuKernels* kernels, const at::Tensor& dy, const NormInputs& inputs,
                          const at::Tensor& residual, const at::Tensor& dx) {
  if (kernels == nullptr || inputs.dWeight.defined() || !hasInverseRms(inputs)) return false;
  if (!inputs.angles.cos_TK.defined()) return rowsBackward(*kernels, dy, inputs, residual, dx);
  return !residual.defined() && headsBackward(*kernels, dy, inputs, dx);
}

at::Tensor gpuSwiglu(const GpuKernels* kernels, const at::Tensor& gateUp_T2F) {
  const int64_t width = gateUp_T2F.size(1) / 2;
  if (kernels == nullptr || !isPackedRows(gateUp_T2F) || width % kPack != 0) return {};
  const at::Tensor act_TF = at::empty({gateUp_T2F.size(0), width}, gateUp_T2F.options());
  startSwiglu(*kernels, gateUp_T2F, act_TF);
  return act_TF;
}

at::Tensor gpuSwigluBackward(const GpuKernels* kernels, const at::Tensor& dy_TF,
                             const at::Tensor& gateUp_T2F) {
  const bool fits = kernels != nullptr && isPackedRows(dy_TF) && isPackedRows(gateUp_T2F) &&
                    dy_TF.scalar_type() == gateUp_T2F.scalar_type() &&
                    gateUp_T2F.size(0) == dy_TF.size(0) && gateUp_T2F.size(1) == 2 * dy_TF.size(1);
  if (!fits) return {};
  const at::Tensor d_T2F = at::empty_like(gateUp_T2F);
  startSwigluBackward(*kernels, dy_TF, gateUp_T2F, d_T2F);
  return d_T2F;
}

at::Tensor gpuDropoutMask(const DropoutPlan& plan, uint32_t threshold, uint64_t place,
                          int64_t width, at::TensorOptions options) {
  const auto type = options.dtype().toScalarType();
  const bool fits = plan.kernels != nullptr && (type == at::kBFloat16 || type == at::kFloat) &&
                    fits32(width) && plan.onDevice_2T.numel() > 0;
  if (!fits) return {};
  const at::Tensor mask_TW = at::empty({plan.onDevice_2T.size(1), width}, options);
  startDropoutMask(plan, threshold, place, mask_TW);
  return mask_TW;
}

bool gpuLogProbs(const GpuKernels* kernels, const at::Tensor& logits_CV,
                 const at::Tensor& targets_C, double temperature, const LogProbsTarget& to) {
  const at::Tensor& probs_CV = to.probs_CV;
  const bool fits =
      kernels != nullptr && logits_CV.scalar_type() == at::kFloat && logits_CV.is_contiguous() &&
      alignedTo(logits_CV, kPackBytes) && fits32(logits_CV.size(0)) && fits32(logits_CV.size(1)) &&
      targets_C.is_contiguous() && to.logprobs_C.is_contiguous() &&
      to.entropies_C.is_contiguous() && to.logprobs_C.scalar_type() == at::kFloat &&
      (!probs_CV.defined() ||
       (hasType(probs_CV) && probs_CV.is_contiguous() && alignedTo(probs_CV, kPackBytes)));
  if (!fits) return false;
  start(*kernels, probs_CV.defined() ? probs_CV : logits_CV, KernelId::log_probs_bf16,
        KernelId::log_probs_fp32, grid(logits_CV.size(0)),
        cuda::LogProbsArgs{.logits_CV = logits_CV.const_data_ptr<float>(),
                           .targets_C = targets_C.const_data_ptr<int64_t>(),
                           .logprobs_C = to.logprobs_C.mutable_data_ptr<float>(),
                           .entropies_C = to.entropies_C.mutable_data_ptr<float>(),
                           .probs_CV = data(probs_CV),
                           .vocab = static_cast<int32_t>(logits_CV.size(1)),
                           .inverseTemperature = static_cast<float>(1 / temperature)});
  return true;
}

}  // namespace acoer
