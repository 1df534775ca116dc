#include "matrix/panels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/bf16_products.h"

namespace acoer {

using kernels::kBlockPairs;
using kernels::kBlockPanels;
using kernels::kPanelRows;

bool fitsPanels(const at::Tensor& w) {
  return w.dim() == 2 && w.scalar_type() == at::kBFloat16 && w.is_cpu() && w.is_contiguous() &&
         w.size(0) % kPanelRows == 0 && w.size(1) % kPanelRows == 0;
}

at::Tensor toPanels(const at::Tensor& w_OI) {
  const int64_t panels = w_OI.size(0) / kPanelRows, pairs = w_OI.size(1) / 2;
  const int64_t groups = (panels + kBlockPanels - 1) / kBlockPanels;
  auto* memory = static_cast<uint32_t*>(w_OI.data_ptr());
  at::parallel_for(0, groups, 1, [&](int64_t first, int64_t last) {
    std::vector<uint32_t> rows;
    for (int64_t p = first * kBlockPanels; p < std::min(panels, last * kBlockPanels); ++p) {
      if (p % kBlockPanels == 0) {
        const int64_t count = std::min(kBlockPanels, panels - p) * kPanelRows * pairs;
        rows.assign(memory + p * kPanelRows * pairs, memory + p * kPanelRows * pairs + count);
      }
      const uint32_t* from = rows.data() + p % kBlockPanels * kPanelRows * pairs;
      for (int64_t block = 0; block < pairs; block += kBlockPairs) {
        uint32_t* to = memory + kernels::panelPlace(panels, pairs, p, block) / 2;
        const int64_t count = std::min(kBlockPairs, pairs - block);
        for (int64_t r = 0; r < kPanelRows; ++r) {
          for (int64_t i = 0; i < count; ++i) to[i * kPanelRows + r] = from[r * pairs + block + i];
        }
      }
    }
  });
  return w_OI.view({panels, pairs, kPanelRows, 2});
}

at::Tensor panelsOf(const at::Tensor& w_OI) {
  const int64_t outputs = w_OI.size(0), inputs = w_OI.size(1);
  const int64_t panels = (outputs + kPanelRows - 1) / kPanelRows;
  const at::Tensor padded =
      at::zeros({panels * kPanelRows, (inputs + 1) / 2 * 2}, w_OI.options().dtype(at::kBFloat16));
  padded.narrow(0, 0, outputs).narrow(1, 0, inputs).copy_(w_OI);
  return toPanels(padded);
}

void copyPanelRow(const at::Tensor& w, int64_t id, void* out) {
  const int64_t panels = w.size(0), pairs = w.size(1);
  const auto* memory = static_cast<const uint32_t*>(w.const_data_ptr()) + id % kPanelRows;
  auto* row = static_cast<uint32_t*>(out);
  for (int64_t block = 0; block < pairs; block += kBlockPairs) {
    const auto* line = memory + kernels::panelPlace(panels, pairs, id / kPanelRows, block) / 2;
    const int64_t count = std::min(kBlockPairs, pairs - block);
    for (int64_t i = 0; i < count; ++i) row[block + i] = line[i * kPanelRows];
  }
}

}  // namespace acoer
