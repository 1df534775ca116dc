#include "selfcheck/selfcheck.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "generate/decode_ops.h"
#include "model/weights.h"
#include "selfcheck/figures.h"

namespace acoer {

Model checkedModel(Figures& figures, const ModelSpec& spec, bool matrices) {
  Model model;
  model.spec = spec;
  model.device = figures.device();
  model.dtype = figures.dtype();
  model.kernels = &figures.kernels();
  model.weights = makeWeights(spec, [&](c10::IntArrayRef shape) {
    if (shape.size() == 1) return figures.normal(shape, 1, 0.1);
    if (!matrices) return at::empty({0, 0}, at::device(figures.device()).dtype(figures.dtype()));
    return figures.normal(shape, 0, 0.06);
  });
  return model;
}

std::vector<KernelFigure> checkFamily(const CheckedKernels& checked, KernelFamily family) {
  const c10::NoGradGuard noGrad;
  const c10::OptionalDeviceGuard guard(checked.device);
  Model model;
  model.spec = checked.spec;
  model.dtype = checked.dtype;
  const bool decodes = gpuKernelsDoNotFit(model).empty();
  Figures figures(checked, family);
  switch (family) {
    case KernelFamily::kDecode:
      if (!decodes) break;
      figures.run(checkDecode);
      figures.run(checkLora);
      figures.run(checkSampler);
      break;
    case KernelFamily::kInt8Cache:
      if (decodes && checked.dtype == at::kBFloat16) figures.run(checkInt8Cache);
      break;
    case KernelFamily::kGraphs:
      if (decodes) figures.run(checkGraphs);
      break;
    case KernelFamily::kTraining:
      figures.run(checkTraining);
      break;
    case KernelFamily::kAdamW:
      figures.run(checkAdamW);
      break;
    case KernelFamily::kDropout:
      figures.run(checkDropout);
      break;
    case KernelFamily::kQuantised:
      if (checked.quantization != Quantization::kNone) figures.run(checkQuantised);
      break;
  }
  return figures.all();
}

std::vector<KernelFigure> checkKernels(const CheckedKernels& checked) {
  std::vector<KernelFigure> all;
  if (checked.dtype != at::kBFloat16 && checked.dtype != at::kFloat) return all;
  for (const KernelFamily family : kKernelFamilies) {
    if (family == KernelFamily::kGraphs && !faultsIn(all)[KernelFamily::kDecode].empty()) continue;
    const std::vector<KernelFigure> figures = checkFamily(checked, family);
    all.insert(all.end(), figures.begin(), figures.end());
  }
  return all;
}

KernelFaults faultsIn(const std::vector<KernelFigure>& figures) {
  KernelFaults faults;
  for (const KernelFigure& figure : figures) {
    if (figure.fault.empty() || !faults[figure.family].empty()) continue;
    faults[figure.family] = "acoer's CUDA kernel " + figure.kernel + " " + figure.fault;
  }
  return faults;
}

}  // namespace acoer
