// What the checks of the families share: inputs, guarded results, comparisons.
#pragma once

#include <ATen/ATen.h>

#include "base/memory.h"
#include "kernels/gpu/kernels.h"
#include "selfcheck/selfcheck.h"

namespace acoer {

// A tensor for a kernel to write to: NaN (integers: -1), between guards.
class Guarded {
 public:
  Guarded(at::IntArrayRef shape, at::ScalarType type, at::Device device);
  // With the values of `from`, which the kernel changes.
  explicit Guarded(const at::Tensor& from);
  const at::Tensor& tensor() const { return tensor_; }
  // Whether something was written beside it.
  bool isTouched() const;

 private:
  at::Tensor bytes_, tensor_;
};

// Structs in guarded memory of the device, and back.
template <class T>
Guarded guarded(const std::vector<T>& values, at::Device device);
template <class T>
std::vector<T> valuesOf(const Guarded& memory);
template <class T>
T* pointer(const Guarded& memory) {
  return static_cast<T*>(memory.tensor().mutable_data_ptr());
}

// A kernel's name without the prefix of the fatbin.
std::string kernelName(cuda::KernelId id);

// Collects the figures of a family.
class Figures {
 public:
  Figures(const CheckedKernels& checked, KernelFamily family);

  const GpuKernels& kernels() const { return checked_.kernels; }
  const ModelSpec& spec() const { return checked_.spec; }
  at::Device device() const { return checked_.device; }
  at::ScalarType dtype() const { return checked_.dtype; }
  Quantization quantization() const { return checked_.quantization; }
  // "NAME_bf16" or "NAME_fp32", as the type of the model is.
  std::string typed(const std::string& name) const;
  // 1e-2 in bf16, 1e-5 in fp32.
  double bound() const;

  // Normal numbers, rounded to `type` (the model's by default).
  at::Tensor normal(at::IntArrayRef shape, double mean = 0, double deviation = 1);
  at::Tensor normalIn(at::ScalarType type, at::IntArrayRef shape, double mean = 0,
                      double deviation = 1);
  // Whole numbers from 0 to 255, in host memory.
  at::Tensor bytes(at::IntArrayRef shape);

  // From now on exceptions are this kernel's.
  void begin(const std::string& kernel) { kernel_ = kernel; }
  // Figures of the kernel that was begun last. `found` and `exact` in any type.
  void expectNear(const at::Tensor& found, const at::Tensor& exact) {
    expectNear(found, exact, bound());
  }
  void expectNear(const at::Tensor& found, const at::Tensor& exact, double allowed);
  void expectNear(const Guarded& found, const at::Tensor& exact);
  void expect(double error, double allowed);
  void expectUntouched(const Guarded& result);
  void addFault(const std::string& fault);

  // Runs a check; what it throws is a fault of the kernel begun last, unless memory ran out.
  template <class Check>
  void run(Check check) {
    try {
      check(*this);
    } catch (const std::exception& error) {
      if (handlingOutOfMemory()) throw;
      addFault("failed: " + std::string(error.what()));
    }
  }
  const std::vector<KernelFigure>& all() const { return figures_; }

 private:
  const CheckedKernels& checked_;
  KernelFamily family_;
  at::Generator generator_;
  std::string kernel_;
  std::vector<KernelFigure> figures_;
};

template <class T>
Guarded guarded(const std::vector<T>& values, at::Device device) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  return Guarded(
      at::from_blob(const_cast<T*>(values.data()), {bytes}, at::kByte).clone().to(device));
}

template <class T>
std::vector<T> valuesOf(const Guarded& memory) {
  const at::Tensor host = memory.tensor().cpu();
  const auto* first = static_cast<const T*>(host.const_data_ptr());
  return {first, first + host.nbytes() / sizeof(T)};
}

// A model with the sizes of `spec` and random weights; only what is between its matrix products
// unless `matrices`.
Model checkedModel(Figures& figures, const ModelSpec& spec, bool matrices);

// One for each family, in its file.
void checkDecode(Figures& figures);
void checkInt8Cache(Figures& figures);
void checkLora(Figures& figures);
void checkSampler(Figures& figures);
void checkGraphs(Figures& figures);
void checkTraining(Figures& figures);
void checkAdamW(Figures& figures);
void checkDropout(Figures& figures);
void checkQuantised(Figures& figures);

}  // namespace acoer
