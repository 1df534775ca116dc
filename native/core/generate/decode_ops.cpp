#include "generate/decode_ops.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/gpu/kernels.h"
#include "ops/ops.h"

namespace acoer {
namespace {

// Four tiles: few enough positions that short sequences waste little, and a page of one head is
// still some kilobytes in a row.
constexpr int64_t kCpuPagePositions = 64;

}  // namespace

void DecodeRows::clear(int64_t pages) {
  pagesPerRow = pages;
  ids.clear();
  pages_NT.clear();
  positions.clear();
  shared.clear();
  spans.clear();
}

void DecodeRows::add(int64_t policy, int32_t id, std::span<const int32_t> pages, int64_t position,
                     const KvCache* sharedPositions) {
  if (spans.empty() || spans.back().policy != policy) spans.push_back({policy, count(), count()});
  ids.push_back(id);
  pages_NT.insert(pages_NT.end(), pages.begin(), pages.end());
  pages_NT.resize(static_cast<size_t>(count() * pagesPerRow));  // zeros are never read
  positions.push_back(static_cast<int32_t>(position));
  shared.push_back(sharedPositions);
  spans.back().end = count();
}

DeviceRows uploadRows(const DecodeRows& rows, int64_t begin, int64_t end, at::ScalarType type,
                      at::Device device) {
  const int64_t count = end - begin, T = rows.pagesPerRow;
  std::vector<int32_t> all;
  const auto append = [&](const std::vector<int32_t>& column, int64_t width) {
    const auto first = column.begin();
    all.insert(all.end(), first + begin * width, first + end * width);
  };
  append(rows.ids, 1);
  append(rows.positions, 1);
  append(rows.pages_NT, T);
  const at::Tensor uploaded = onDevice(at::tensor(all, type), device);
  return {.ids_N = uploaded.narrow(0, 0, count),
          .pages_NT = uploaded.narrow(0, 2 * count, count * T).view({count, T}),
          .positions_N = uploaded.narrow(0, count, count)};
}

at::Tensor attendPrompt(const Heads& prompt) {
  const auto& [q_THK, k_TJK, v_TJK] = prompt;
  const auto type = attentionType(q_THK);
  auto batched = [&](const at::Tensor& x) { return x.to(type).transpose(0, 1).unsqueeze(0); };
  const at::Tensor out = at::scaled_dot_product_attention(
      batched(q_THK), batched(k_TJK), batched(v_TJK), {}, 0.0, /*is_causal=*/true, std::nullopt,
      /*enable_gqa=*/q_THK.size(1) != k_TJK.size(1));
  return out.squeeze(0).transpose(0, 1).flatten(1).to(q_THK.scalar_type());
}

bool usesCpuKernels(const Model& model, DecodePath path, const GpuKernels* kernels) {
  return kernels == nullptr && path == DecodePath::kAuto && model.device.is_cpu();
}

std::unique_ptr<DecodeOps> makeDecodeOps(const Model& model, int64_t positions, DecodePath path,
                                         const GpuKernels* kernels) {
  if (kernels != nullptr) return gpuDecodeOps(model, positions, *kernels);
  if (usesCpuKernels(model, path, kernels)) return cpuDecodeOps(model, positions);
  return tensorDecodeOps(model, positions);
}

// A page of the CUDA kernels is what one block of attention reads.
int64_t pagePositions(const Model& model, DecodePath path, const GpuKernels* kernels,
                      int64_t longest) {
  if (kernels != nullptr) return std::min<int64_t>(longest, cuda::kAttentionSplit);
  return usesCpuKernels(model, path, kernels) ? std::min(longest, kCpuPagePositions) : longest;
}

DecodeOps::DecodeOps(const Model& model, Matrix::Form form, int64_t positions,
                     at::ScalarType angles)
    : model_(model), form_(form) {
  const RopeTable table = ropeTable(model.spec, positions, model.device, model.dtype);
  auto rounded = [&](const at::Tensor& t) { return t.to(model.dtype).to(angles).contiguous(); };
  rope_ = {rounded(table.cos_PK), rounded(table.sin_PK)};
}

// Without an allocation on a GPU, where this is recorded in graphs.
void DecodeOps::embed(DecodePart& part) const {
  part.weights->embed_VD.rowsInto(part.x_ND, part.device.ids_N);
}

void DecodeOps::multiply(const Matrix& w, const at::Tensor& x_NI, const at::Tensor& y_NO,
                         const Into& into) const {
  Into given = into;
  given.kernels = model_.kernelsOf(KernelFamily::kQuantised);
  w.forwardInto(y_NO, x_NI, given);
}

at::Tensor DecodeOps::ranksOf(const AdapterGroup& group, int64_t rows, const at::Tensor& ranks_NR) {
  return ranks_NR.view({-1}).narrow(0, 0, rows * group.ranks).view({rows, group.ranks});
}

void DecodeOps::addAdapter(const AdapterGroup& group, const at::Tensor& x_NI,
                           const at::Tensor& y_NO, const at::Tensor& ranks_NR) const {
  if (!group.defined()) return;
  const at::Tensor t_NR = ranksOf(group, x_NI.size(0), ranks_NR);
  multiply(group.a, x_NI, t_NR, {});
  if (group.bT_RO.defined()) {
    at::Tensor y = y_NO;
    y.addmm_(t_NR, group.bT_RO);
    return;
  }
  for (const AdapterGroup::Block& block : group.blocks) {
    multiply(block.b, t_NR.narrow(1, block.firstRank, block.ranks),
             y_NO.narrow(1, block.firstColumn, block.columns), {.add = true});
  }
}

void DecodeOps::activateAdapted(DecodePart& part, const AdapterGroup& gateUp) const {
  addAdapter(gateUp, part.normed_ND, part.gateUp_N2F, part.ranks_NR);
  activation(part);
}

}  // namespace acoer
