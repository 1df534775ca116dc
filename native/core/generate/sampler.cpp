#include "generate/sampler.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "kernels/cpu/kernels.h"

namespace acoer {
namespace {

using kernels::kLogitBlock;
constexpr int64_t kGrainLogits = int64_t{1} << 14;
// Terms of the inverse CDF that are computed before they are looked at.
constexpr int64_t kTermsAtATime = 64;

bool unfiltered(const DrawRow& row) {
  const SamplingOptions& o = *row.options;
  return row.seen == nullptr && o.topK == 0 && o.topP >= 1 && o.minP <= 0;
}

template <class T>
T penalised(T logit, double penalty) {
  return static_cast<T>(logit < 0 ? logit * penalty : logit / penalty);
}

template <class T>
int32_t largest(std::span<const T> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The inverse CDF without filters: blocks are skipped by their sums, then terms are added in order.
template <class T>
int32_t drawPlain(std::span<const T> logits, const kernels::LogitSums<T>& sums,
                  const std::vector<double>& blockSums, double invTemperature, double uniform) {
  const double target = uniform * sums.sum;
  double before = 0;
  size_t block = 0;
  while (block + 1 < blockSums.size() && before + blockSums[block] <= target) {
    before += blockSums[block++];
  }
  const int64_t first = static_cast<int64_t>(block) * kLogitBlock;
  const int64_t end = std::min(first + kLogitBlock, std::ssize(logits));
  // Rounding may leave the target just beyond the last term. Then the last term with any weight is
  // chosen.
  int64_t chosen = first;
  double terms[kTermsAtATime];
  for (int64_t from = first; from < end; from += kTermsAtATime) {
    const int64_t count = std::min(kTermsAtATime, end - from);
    kernels::mathKernels<T>().logitExps(logits.data() + from, count, sums.max, invTemperature,
                                        terms);
    for (int64_t i = 0; i < count; ++i) {
      if (terms[i] > 1e-300) chosen = from + i;
      before += terms[i];
      if (before > target) return static_cast<int32_t>(from + i);
    }
  }
  return static_cast<int32_t>(chosen);
}

// The ids and z = (logit - max) / temperature of the tokens that the filters left, by ascending id.
struct Candidates {
  std::vector<int32_t> ids;
  std::vector<double> z;
  size_t size() const { return ids.size(); }
  template <class Keep>
  void keepIf(const Keep& keep) {
    size_t kept = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!keep(i)) continue;
      ids[kept] = ids[i];
      z[kept++] = z[i];
    }
    ids.resize(kept);
    z.resize(kept);
  }
};

void applyTopK(Candidates& candidates, int64_t k) {
  if (k <= 0 || k >= std::ssize(candidates)) return;
  std::vector<double> z = candidates.z;
  std::nth_element(z.begin(), z.begin() + (k - 1), z.end(), std::greater<>());
  const double threshold = z[static_cast<size_t>(k - 1)];  // ties with the k-th are kept
  candidates.keepIf([&](size_t i) { return candidates.z[i] >= threshold; });
}

// Keeps the likeliest tokens until their probabilities reach topP. To sort no more than that takes,
// it starts with those within `range` of the largest and widens the range until their mass
// suffices.
void applyTopP(Candidates& candidates, double topP) {
  if (topP >= 1) return;
  const size_t n = candidates.size();
  std::vector<double> terms(n);
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += terms[i] = std::exp(candidates.z[i]);
  const double largestZ = *std::max_element(candidates.z.begin(), candidates.z.end());
  std::vector<size_t> order;
  for (double range = 4;; range *= 2) {
    order.clear();
    double mass = 0;
    for (size_t i = 0; i < n; ++i) {
      if (candidates.z[i] < largestZ - range) continue;
      order.push_back(i);
      mass += terms[i];
    }
    if (order.size() == n || mass >= topP * total * (1 + 1e-9)) break;
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return candidates.z[a] != candidates.z[b] ? candidates.z[a] > candidates.z[b] : a < b;
  });
  std::vector<uint8_t> kept(n, 0);
  double above = 0;
  for (size_t i : order) {
    if (above >= topP * total) break;
    kept[i] = 1;
    above += terms[i];
  }
  candidates.keepIf([&](size_t i) { return kept[i] != 0; });
}

void applyMinP(Candidates& candidates, double minP) {
  if (minP <= 0) return;
  const double threshold =
      *std::max_element(candidates.z.begin(), candidates.z.end()) + std::log(minP);
  candidates.keepIf([&](size_t i) { return candidates.z[i] >= threshold; });
}

template <class T>
int32_t drawFiltered(std::span<const T> logits, const DrawRow& row) {
  const SamplingOptions& options = *row.options;
  std::vector<T> values(logits.begin(), logits.end());
  if (row.seen != nullptr) {
    for (int32_t id : *row.seen) {
      T& value = values[static_cast<size_t>(id)];
      value = penalised(value, options.repetitionPenalty);
    }
  }
  if (options.temperature == 0) return largest<T>(values);
  const double max = *std::max_element(values.begin(), values.end());
  Candidates candidates;
  candidates.ids.resize(values.size());
  std::iota(candidates.ids.begin(), candidates.ids.end(), 0);
  candidates.z.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    candidates.z[i] = (static_cast<double>(values[i]) - max) / options.temperature;
  }
  applyTopK(candidates, options.topK);
  applyTopP(candidates, options.topP);
  applyMinP(candidates, options.minP);
  double total = 0;
  for (double& z : candidates.z) total += z = std::exp(z);
  const double target = row.uniform * total;
  double sum = 0;
  size_t chosen = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates.z[i] > 0) chosen = i;
    sum += candidates.z[i];
    if (sum > target) break;
  }
  return candidates.ids[chosen];
}

template <class T>
Draw drawRow(std::span<const T> logits, const DrawRow& row) {
  const bool greedy = row.options->temperature == 0;
  const double invTemperature = greedy ? 1 : 1 / row.options->temperature;
  std::vector<double> blockSums((logits.size() + kLogitBlock - 1) / kLogitBlock);
  const kernels::LogitSums<T> sums = kernels::mathKernels<T>().logitSums(
      logits.data(), std::ssize(logits), invTemperature, blockSums.data());
  Draw draw;
  draw.finite = std::isfinite(sums.max) && std::isfinite(sums.sum) && std::isfinite(sums.weighted);
  if (!draw.finite) return draw;
  if (greedy && row.seen == nullptr) {
    draw.id = largest(logits);
  } else if (unfiltered(row)) {
    draw.id = drawPlain(logits, sums, blockSums, invTemperature, row.uniform);
  } else {
    draw.id = drawFiltered(logits, row);
  }
  const double logSum = std::log(sums.sum);
  draw.logprob =
      (static_cast<double>(logits[static_cast<size_t>(draw.id)]) - sums.max) * invTemperature -
      logSum;
  draw.entropy = std::max(0.0, logSum - sums.weighted / sums.sum);
  return draw;
}

template <class T>
std::vector<Draw> drawOnCpu(const at::Tensor& logits_NV, const std::vector<DrawRow>& rows) {
  const T* logits = logits_NV.const_data_ptr<T>();
  const int64_t vocab = logits_NV.size(1), stride = logits_NV.stride(0);
  std::vector<Draw> draws(rows.size());
  at::parallel_for(0, std::ssize(rows), std::max<int64_t>(1, kGrainLogits / vocab),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t n = begin; n < end; ++n) {
                       const DrawRow& row = rows[static_cast<size_t>(n)];
                       draws[static_cast<size_t>(n)] = drawRow<T>(
                           {logits + row.logitsRow * stride, static_cast<size_t>(vocab)}, row);
                     }
                   });
  return draws;
}

}  // namespace

std::vector<Draw> drawTokens(const at::Tensor& logits_NV, const std::vector<DrawRow>& rows) {
  if (!logits_NV.device().is_cpu()) return drawTokensByTensorOps(logits_NV, rows);
  if (logits_NV.scalar_type() == at::kDouble) return drawOnCpu<double>(logits_NV, rows);
  return drawOnCpu<float>(logits_NV, rows);
}

}  // namespace acoer
