// The sampler as tensor operations. Rows with the same options are drawn together.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "generate/sampler.h"
#include "ops/ops.h"

namespace acoer {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

at::Tensor applyPenalty(const at::Tensor& logits_GV, const std::vector<const DrawRow*>& rows) {
  const double penalty = rows[0]->options->repetitionPenalty;
  if (penalty == 1) return logits_GV;
  std::vector<int64_t> rowIndex, idIndex;
  for (size_t g = 0; g < rows.size(); ++g) {
    if (rows[g]->seen == nullptr) continue;
    for (int32_t id : *rows[g]->seen) {
      rowIndex.push_back(static_cast<int64_t>(g));
      idIndex.push_back(id);
    }
  }
  const auto device = logits_GV.device();
  const at::Tensor r = onDevice(at::tensor(rowIndex, at::kLong), device);
  const at::Tensor c = onDevice(at::tensor(idIndex, at::kLong), device);
  const c10::List<std::optional<at::Tensor>> places(
      {std::optional<at::Tensor>(r), std::optional<at::Tensor>(c)});
  const at::Tensor seen = at::index(logits_GV, places);
  return at::index_put(logits_GV, places, at::where(seen < 0, seen * penalty, seen / penalty));
}

// z with -inf for tokens that top-k, top-p and min-p exclude.
at::Tensor applyFilters(at::Tensor z_GV, const SamplingOptions& options) {
  const int64_t vocab = z_GV.size(1);
  if (options.topK > 0 && options.topK < vocab) {
    const at::Tensor kth = std::get<0>(at::topk(z_GV, options.topK, 1)).select(1, -1).unsqueeze(1);
    z_GV = z_GV.masked_fill(z_GV < kth, kMinusInfinity);
  }
  if (options.topP < 1) {
    const auto [sorted, order] = at::sort(z_GV, /*stable=*/true, 1, /*descending=*/true);
    const at::Tensor p = at::softmax(sorted, 1);
    const at::Tensor above = at::cumsum(p, 1) - p;
    const at::Tensor removed = at::zeros_like(z_GV, z_GV.options().dtype(at::kBool))
                                   .scatter_(1, order, above >= options.topP);
    z_GV = z_GV.masked_fill(removed, kMinusInfinity);
  }
  if (options.minP > 0) {
    const at::Tensor threshold = at::amax(z_GV, 1, true) + std::log(options.minP);
    z_GV = z_GV.masked_fill(z_GV < threshold, kMinusInfinity);
  }
  return z_GV;
}

at::Tensor drawIds(const at::Tensor& z_GV, const std::vector<const DrawRow*>& rows) {
  std::vector<double> uniforms;
  for (const DrawRow* row : rows) uniforms.push_back(row->uniform);
  const at::Tensor u_G1 = onDevice(at::tensor(uniforms, at::kDouble), z_GV.device()).unsqueeze(1);
  const at::Tensor cumulative = at::cumsum(at::softmax(z_GV, 1), 1);
  const at::Tensor target = u_G1 * cumulative.narrow(1, -1, 1);
  const at::Tensor ids = at::searchsorted(cumulative, target, false, /*right=*/true).squeeze(1);
  // Rounding of the cumulative sum may lead beyond the last token with any weight.
  const at::Tensor last =
      z_GV.size(1) - 1 - at::argmax(at::flip(z_GV > kMinusInfinity, {1}).to(at::kInt), 1);
  return at::minimum(ids, last);
}

// The logits of each row; not copied where all rows are drawn in order.
at::Tensor logitsOf(const at::Tensor& logits_NV, const std::vector<const DrawRow*>& rows) {
  std::vector<int64_t> index;
  bool inOrder = true;
  for (const DrawRow* row : rows) {
    inOrder = inOrder && row->logitsRow == std::ssize(index);
    index.push_back(row->logitsRow);
  }
  if (inOrder) return logits_NV.narrow(0, 0, std::ssize(index));
  return logits_NV.index_select(0, onDevice(at::tensor(index), logits_NV.device()));
}

void drawGroup(const at::Tensor& logits_NV, const std::vector<const DrawRow*>& rows,
               const std::vector<size_t>& places, std::vector<Draw>& draws) {
  const SamplingOptions& options = *rows[0]->options;
  const bool greedy = options.temperature == 0;
  const at::Tensor logits = logitsOf(logits_NV, rows);
  const at::Tensor logp =
      at::log_softmax(logits.to(at::kDouble) / (greedy ? 1.0 : options.temperature), 1);
  const at::Tensor entropy = -at::sum(at::exp(logp) * logp, 1);
  const at::Tensor finite = at::isfinite(logits).all(1);
  const at::Tensor changed = applyPenalty(logits, rows);
  at::Tensor ids;
  if (greedy) {
    ids = at::argmax(changed, 1);
  } else {
    ids = drawIds(applyFilters(changed.to(at::kDouble) / options.temperature, options), rows);
  }
  ids = at::where(finite, ids, at::zeros_like(ids));
  const at::Tensor chosen = logp.gather(1, ids.unsqueeze(1)).squeeze(1);
  const at::Tensor table =
      at::stack({ids.to(at::kDouble), chosen, entropy, finite.to(at::kDouble)}, 1).cpu();
  const auto values = table.accessor<double, 2>();
  for (size_t g = 0; g < rows.size(); ++g) {
    const auto row = values[static_cast<int64_t>(g)];
    draws[places[g]] = {static_cast<int32_t>(row[0]), row[1], row[2], row[3] != 0};
  }
}

}  // namespace

std::vector<Draw> drawTokensByTensorOps(const at::Tensor& logits_NV,
                                        const std::vector<DrawRow>& rows) {
  std::vector<Draw> draws(rows.size());
  std::vector<uint8_t> done(rows.size(), 0);
  for (size_t first = 0; first < rows.size(); ++first) {
    if (done[first]) continue;
    std::vector<const DrawRow*> group;
    std::vector<size_t> places;
    for (size_t n = first; n < rows.size(); ++n) {
      if (done[n] || *rows[n].options != *rows[first].options) continue;
      done[n] = 1;
      group.push_back(&rows[n]);
      places.push_back(n);
    }
    drawGroup(logits_NV, group, places, draws);
  }
  return draws;
}

}  // namespace acoer
