#include "ops/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "ops/gpu_ops.h"
#include "ops/ops.h"
#include "ops/rope.h"

namespace acoer {

namespace {

// Tokens per unit of work; fixed, so that sums over tokens are always grouped in the same way.
constexpr int64_t kBlock = 64;

template <class T>
kernels::Rows<T> rowsOf(const at::Tensor& x) {
  const bool heads = x.dim() == 3;
  if (x.stride(-1) != 1) fail(ErrorCode::kInternal, "a norm's rows must be contiguous");
  return {.data = writePointer<std::remove_const_t<T>>(x),
          .tokens = x.size(0),
          .heads = heads ? x.size(1) : 1,
          .width = x.size(-1),
          .tokenStride = x.stride(0),
          .headStride = heads ? x.stride(1) : 0};
}

template <class T>
T* pointerOrNull(const at::Tensor& x) {
  return x.defined() ? writePointer<T>(x) : nullptr;
}

template <class T>
kernels::RmsRotation<T> rotationOf(const at::Tensor& weight, const Angles& angles, double eps) {
  return {pointerOrNull<T>(weight), pointerOrNull<T>(angles.cos_TK),
          pointerOrNull<T>(angles.sin_TK), eps};
}

template <class T>
Normed forwardKernel(const at::Tensor& x, const at::Tensor& weight, double eps,
                     const Angles& angles) {
  auto shape = x.sizes().vec();
  Normed normed{at::empty(shape, x.options()), {}};
  shape.back() = 1;
  if (weight.defined())
    normed.inverseRms = at::empty(shape, x.options().dtype(wideType(x.scalar_type())));
  const auto f = rotationOf<T>(weight, angles, eps);
  const auto in = rowsOf<const T>(x);
  const auto out = rowsOf<T>(normed.y);
  auto* inverseRms = pointerOrNull<kernels::Acc<T>>(normed.inverseRms);
  at::parallel_for(0, in.tokens, kBlock, [&](int64_t from, int64_t to) {
    kernels::rowKernels<T>().rmsRotate(f, in, out, inverseRms, from, to);
  });
  return normed;
}

template <class T>
void backwardKernel(const at::Tensor& dy, const NormInputs& in, const at::Tensor& residual,
                    const at::Tensor& dx) {
  using A = kernels::Acc<T>;
  const auto f = rotationOf<T>(in.weight, in.angles, 0);
  const kernels::RmsRotationTape<T> tape{rowsOf<const T>(in.x), pointerOrNull<A>(in.inverseRms),
                                         pointerOrNull<T>(residual)};
  const auto slopes = rowsOf<const T>(dy);
  const auto out = rowsOf<T>(dx);
  const int64_t blocks = (out.tokens + kBlock - 1) / kBlock, width = out.width;
  std::vector<A> dWeights(static_cast<size_t>(in.dWeight.defined() ? blocks * width : 0));
  at::parallel_for(0, blocks, 1, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      kernels::rowKernels<T>().rmsRotateBackward(
          f, tape, slopes, out, dWeights.empty() ? nullptr : dWeights.data() + block * width,
          block * kBlock, std::min(out.tokens, (block + 1) * kBlock));
    }
  });
  auto* dWeight = pointerOrNull<A>(in.dWeight);
  for (size_t i = 0; i < dWeights.size(); ++i)
    dWeight[i % static_cast<size_t>(width)] += dWeights[i];
}

// With n = x r and g = dy w: dx = r (g - n mean(g n)). The backward of the rotation is its
// transpose, which turns by the opposite angle.
void backwardOps(const at::Tensor& dyRotated, const NormInputs& in, const at::Tensor& residual,
                 at::Tensor dx) {
  const at::Tensor dy = in.angles.cos_TK.defined()
                            ? applyRope(dyRotated, in.angles.cos_TK, -in.angles.sin_TK)
                            : dyRotated;
  if (!in.weight.defined()) {
    dx.copy_(dy);
    return;
  }
  const auto wide = wideType(in.x.scalar_type());
  const at::Tensor n = in.x.to(wide) * in.inverseRms;
  at::Tensor g = dy.to(wide);
  if (in.dWeight.defined()) {
    at::Tensor target = in.dWeight;
    target.add_((g * n).flatten(0, -2).sum(0));
  }
  g = g * in.weight.to(wide);
  const at::Tensor mean = (g * n).mean(-1, true);
  dx.copy_(g.addcmul_(n, mean, -1).mul_(in.inverseRms));
  if (residual.defined()) dx.add_(residual);
}

// With s = sigmoid(gate): d(silu(gate))/dgate = s (1 + gate (1 - s)), which silu_backward computes.
void swigluBackwardOps(const at::Tensor& dy_TF, const at::Tensor& gateUp_T2F,
                       const at::Tensor& d_T2F) {
  const int64_t width = dy_TF.size(1);
  const at::Tensor gate = gateUp_T2F.narrow(1, 0, width), up = gateUp_T2F.narrow(1, width, width);
  at::Tensor dGate = d_T2F.narrow(1, 0, width), dUp = d_T2F.narrow(1, width, width);
  at::mul_out(dGate, dy_TF, up);
  at::silu_backward_out(dGate, dGate, gate);
  at::silu_out(dUp, gate);
  dUp.mul_(dy_TF);
}

}  // namespace

Normed rmsRotateByTensorOps(const at::Tensor& x, const at::Tensor& weight, double eps,
                            const Angles& angles) {
  if (!weight.defined()) return {applyRope(x, angles.cos_TK, angles.sin_TK), {}};
  const at::Tensor wide = x.to(wideType(x.scalar_type()));
  const at::Tensor inverseRms = at::rsqrt((wide * wide).mean(-1, true) + eps);
  const at::Tensor y = (wide * inverseRms).to(x.scalar_type()) * weight;
  return {angles.cos_TK.defined() ? applyRope(y, angles.cos_TK, angles.sin_TK) : y, inverseRms};
}

Normed rmsRotate(const GpuKernels* kernels, const at::Tensor& x, const at::Tensor& weight,
                 double eps, const Angles& angles) {
  if (auto onGpu = gpuRmsRotate(kernels, x, weight, eps, angles)) return *std::move(onGpu);
  Normed normed;
  const bool done = x.is_cpu() && withKernelType(x.scalar_type(), [&](auto type) {
                      normed = forwardKernel<decltype(type)>(x, weight, eps, angles);
                    });
  return done ? normed : rmsRotateByTensorOps(x, weight, eps, angles);
}

Normed addAndNorm(const GpuKernels* kernels, at::Tensor x_TD, const at::Tensor& delta_TD,
                  const at::Tensor& weight_D, double eps) {
  if (auto done = gpuAddAndNorm(kernels, x_TD, delta_TD, weight_D, eps)) return *std::move(done);
  x_TD.add_(delta_TD);
  return rmsRotate(nullptr, x_TD, weight_D, eps);
}

void rmsRotateBackward(const GpuKernels* kernels, const at::Tensor& dy, const NormInputs& inputs,
                       const at::Tensor& residual, const at::Tensor& dx) {
  if (gpuRmsRotateBackward(kernels, dy, inputs, residual, dx)) return;
  const bool done = dy.is_cpu() && withKernelType(dy.scalar_type(), [&](auto type) {
                      backwardKernel<decltype(type)>(dy, inputs, residual, dx);
                    });
  if (!done) backwardOps(dy, inputs, residual, dx);
}

bool cpuSwiglu(const at::Tensor& gateUp_T2F, const at::Tensor& act_TF) {
  const int64_t width = act_TF.size(1);
  return withKernelType(act_TF.scalar_type(), [&](auto type) {
    using T = decltype(type);
    const T* gateUp = readPointer<T>(gateUp_T2F);
    T* act = writePointer<T>(act_TF);
    const auto kernel = kernels::rowKernels<T>().swiglu;
    at::parallel_for(0, act_TF.size(0), rowGrain(width), [&](int64_t begin, int64_t end) {
      kernel(gateUp + 2 * begin * width, act + begin * width, end - begin, width);
    });
  });
}

at::Tensor swigluForward(const GpuKernels* kernels, const at::Tensor& gateUp_T2F) {
  const at::Tensor done_TF = gpuSwiglu(kernels, gateUp_T2F);
  if (done_TF.defined()) return done_TF;
  if (!gateUp_T2F.is_cpu()) return swiglu(gateUp_T2F);
  const at::Tensor act_TF =
      at::empty({gateUp_T2F.size(0), gateUp_T2F.size(1) / 2}, gateUp_T2F.options());
  return cpuSwiglu(gateUp_T2F, act_TF) ? act_TF : swiglu(gateUp_T2F);
}

at::Tensor swigluBackward(const GpuKernels* kernels, const at::Tensor& dy_TF,
                          const at::Tensor& gateUp_T2F) {
  const at::Tensor onGpu_T2F = gpuSwigluBackward(kernels, dy_TF, gateUp_T2F);
  if (onGpu_T2F.defined()) return onGpu_T2F;
  const at::Tensor d_T2F = at::empty_like(gateUp_T2F);
  const int64_t width = dy_TF.size(1);
  const bool done =
      dy_TF.is_cpu() && withKernelType(dy_TF.scalar_type(), [&](auto type) {
        using T = decltype(type);
        const T *gateUp = readPointer<T>(gateUp_T2F), *dy = readPointer<T>(dy_TF);
        T* d = writePointer<T>(d_T2F);
        at::parallel_for(0, dy_TF.size(0), rowGrain(width), [&](int64_t begin, int64_t end) {
          kernels::rowKernels<T>().swigluBackward(gateUp + 2 * begin * width, dy + begin * width,
                                                  d + 2 * begin * width, end - begin, width);
        });
      });
  if (!done) swigluBackwardOps(dy_TF, gateUp_T2F, d_T2F);
  return d_T2F;
}

}  // namespace acoer
