// Sums of gradients: fp32 runs in any micro-batches, on any number of threads and in any order give
// the same bits, and what is written into lent sums is what the step takes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "check.h"
#include "device_models.h"
#include "train/adamw.h"
#include "train/forward.h"

namespace acoer::check {
namespace {

const Cancel kNever;

// Ten sequences in five runs: of one, two and three.
PackedSequences inRuns() {
  PackedSequences batch = randomSequences(smallSpec(), {9, 20, 20, 5, 5, 5, 70, 12, 12, 1},
                                          {31, 60, 25, 9, 80, 0, 64, 17, 90, 33}, 3);
  batch.runs = {0, 1, 3, 6, 7, 10};
  return batch;
}

std::shared_ptr<Policy> fp32Policy(PolicyOptions::Kind kind) {
  const auto model = randomModel(smallSpec(), at::kCPU, at::kFloat, 3);
  if (kind == PolicyOptions::Kind::kLora) return randomAdapter(model, 5);
  PolicyOptions options;
  options.kind = kind;
  return createPolicy(model, options);
}

// Adds the gradient of runs [first, last).
void addRuns(Policy& policy, const PackedSequences& all, size_t first, size_t last) {
  const auto begin = static_cast<size_t>(all.runs[first]),
             end = static_cast<size_t>(all.runs[last]);
  PackedSequences batch = all.slice(begin, end);
  for (size_t run = first; run <= last; ++run)
    batch.runs.push_back(all.runs[run] - all.runs[first]);
  int64_t place = 0;
  for (size_t b = 0; b < begin; ++b) {
    place += all.offsets[b + 1] - all.offsets[b] - all.promptLengths[b];
  }
  std::vector<double> slopes;
  for (int64_t t = 0; t < batch.completionTokens(); ++t, ++place) {
    slopes.push_back(0.1 * std::sin(3 * static_cast<double>(place) + 1));
  }
  forward(policy, batch, 1, std::nullopt, kNever);
  backward(policy, slopes, kNever);
}

void checkEqual(const NamedTensors& got, const NamedTensors& want) {
  ACOER_CHECK(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) ACOER_CHECK(at::equal(got[i].second, want[i].second));
}

ACOER_TEST(gradient_sums_depend_on_runs_alone) {
  const PackedSequences all = inRuns();
  const int before = at::get_num_threads();
  for (const auto kind : {PolicyOptions::Kind::kLora, PolicyOptions::Kind::kFull}) {
    const auto policy = fp32Policy(kind);
    ACOER_CHECK(gradientSumType(*policy) == at::kDouble);
    addRuns(*policy, all, 0, 5);
    const auto want = gradients(*policy);
    ACOER_CHECK_LE(0.0001, want[2].second.abs().max().item<double>());
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      for (const auto& cuts :
           std::vector<std::vector<size_t>>{{0, 5}, {0, 2, 5}, {0, 1, 2, 3, 4, 5}, {3, 5, 0, 3}}) {
        zeroGradients(*policy);
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
          if (cuts[i] < cuts[i + 1]) addRuns(*policy, all, cuts[i], cuts[i + 1]);
        }
        checkEqual(gradients(*policy), want);
      }
    }
    at::set_num_threads(before);
  }
}

ACOER_TEST(gradient_sums_that_are_lent_are_stepped_on) {
  const PackedSequences all = inRuns();
  const auto alone = fp32Policy(PolicyOptions::Kind::kLora);
  const auto first = fp32Policy(PolicyOptions::Kind::kLora);
  const auto second = fp32Policy(PolicyOptions::Kind::kLora);
  const StepOptions options{.learningRate = 1e-2, .weightDecay = 0.1, .maxGradNorm = 1};
  for (int stepNumber = 0; stepNumber < 3; ++stepNumber) {
    addRuns(*alone, all, 0, 5);
    addRuns(*first, all, 0, 2);
    // The last time one brings nothing but zeros.
    addRuns(stepNumber < 2 ? *second : *first, all, 2, 5);
    at::Tensor ours = lendGradientSums(*first), theirs = lendGradientSums(*second);
    ACOER_CHECK(ours.data_ptr() == lendGradientSums(*first).data_ptr());
    ours.add_(theirs);
    theirs.copy_(ours);
    const StepResult want = step(*alone, options);
    for (const auto& policy : {first, second}) {
      const StepResult got = step(*policy, options);
      ACOER_CHECK(got.applied && got.gradNorm == want.gradNorm);
      ACOER_CHECK(lendGradientSums(*policy).count_nonzero().item<int64_t>() == 0);
      for (size_t i = 0; i < alone->parameters.size(); ++i) {
        ACOER_CHECK(at::equal(policy->parameters[i].value, alone->parameters[i].value));
      }
    }
  }
}

ACOER_TEST(gradient_sums_outlive_their_policy) {
  at::Tensor sums;
  {
    const auto policy = fp32Policy(PolicyOptions::Kind::kLora);
    addRuns(*policy, inRuns(), 0, 5);
    sums = lendGradientSums(*policy);
  }
  ACOER_CHECK(sums.count_nonzero().item<int64_t>() > 0);
}

ACOER_TEST(gradient_sums_refuse_bad_runs) {
  const auto policy = fp32Policy(PolicyOptions::Kind::kLora);
  for (const std::vector<int64_t>& runs :
       std::vector<std::vector<int64_t>>{{0}, {0, 9}, {1, 10}, {0, 4, 4, 10}, {0, 7, 3, 10}}) {
    PackedSequences batch = inRuns();
    batch.runs = runs;
    ACOER_CHECK_THROWS(forward(*policy, batch, 1, std::nullopt, kNever), ErrorCode::kBadShape,
                       "runs must rise from 0 to the number of sequences, 10");
  }
}

}  // namespace
}  // namespace acoer::check
