// A run that was saved goes on as if it had not stopped, on a device.
#include <ATen/ATen.h>

#include "check.h"
#include "device_models.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

double largestDifference(const Policy& a, const Policy& b) {
  double largest = 0;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const at::Tensor gap = a.parameters[i].value - b.parameters[i].value;
    largest = std::max(largest, gap.abs().max().item<double>());
  }
  return largest;
}

NamedTensors onCpu(NamedTensors named) {
  for (auto& [name, tensor] : named) tensor = tensor.cpu();
  return named;
}

}  // namespace

ACOER_TEST(device_resume_float32) {
  const auto model = randomModel(smallSpec(), checkDevice(), at::kFloat, 3);
  const auto policy = randomAdapter(model, 5);
  const auto batch = randomSequences(smallSpec(), {3, 9, 30}, {5, 70, 6}, 1);
  const auto slopes = randomSlopes(batch, 2);
  const auto train = [&](Policy& trained) {
    addGradients(trained, batch, slopes);
    ACOER_CHECK(step(trained, {.learningRate = 1e-3, .maxGradNorm = 1}).applied);
  };
  train(*policy);
  train(*policy);
  const TensorFile values(onCpu(valuesOf(*policy))), state(onCpu(optimizerStateOf(*policy)));
  const auto again = loadAdapter(model, policy->options, values.table);
  restoreOptimizer(*again, state.table);
  ACOER_CHECK(again->stepCount == 2);
  ACOER_CHECK_LE(largestDifference(*policy, *again), 0);
  for (int i = 0; i < 3; ++i) {
    train(*policy);
    train(*again);
  }
  // A GPU adds some gradients up in an order that changes from run to run; AdamW moves a value by
  // 1e-3 a step at most.
  ACOER_CHECK_LE(largestDifference(*policy, *again), checkDevice().is_cpu() ? 0 : 1e-4);
}

}  // namespace acoer::check
