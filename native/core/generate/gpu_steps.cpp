#include "generate/gpu_steps.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"

namespace acoer {
namespace {

using cuda::KernelId;

constexpr int64_t kAlignment = 256;

// Batches and lengths are rounded up to 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ...: few graphs, and at
// most a third of the rows or of the blocks of attention idle.
int64_t roundedUp(int64_t n) {
  int64_t step = 1;
  while (4 * step < n) step *= 2;
  return n <= 4 ? n : (n + step - 1) / step * step;
}

at::Tensor deviceBytes(int64_t count, at::Device device) {
  return at::empty({std::max<int64_t>(1, count)}, at::device(device).dtype(at::kByte));
}

at::Tensor hostBytes(int64_t count, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(!device.is_cpu());
  return at::empty({std::max<int64_t>(1, count)}, options);
}

// Empty if steps can be graphs.
std::string whyNoGraphs(const Model& model) {
  const std::string& fault = model.kernelFaults[KernelFamily::kGraphs];
  const bool quantised = model.quantization != Quantization::kNone;
  if (!fault.empty() || !quantised) return fault;
  return model.kernelFaults[KernelFamily::kQuantised];  // what does their work takes memory
}

}  // namespace

template <class T>
GpuSteps::Part GpuSteps::addPart(int64_t count) {
  const Part part{stateBytes_};
  const auto bytes = count * static_cast<int64_t>(sizeof(T));
  stateBytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return part;
}

GpuSteps::GpuSteps(const Model& model, const GpuKernels& kernels, Decoder& decoder,
                   const KvCache& cache, const DecoderNeeds& needs, int64_t rows)
    : model_(model),
      kernels_(kernels),
      decoder_(decoder),
      cache_(cache),
      capacity_(roundedUp(rows)),
      longest_(needs.longest),
      pagesPerRow_((needs.longest + cache.positions() - 1) / cache.positions()),
      penalties_(needs.penalties),
      stopRoom_(needs.stopIds),
      noGraphsBecause_(whyNoGraphs(model)) {
  const int64_t vocab = model.spec.vocabSize, N = capacity_;
  samplers_ = addPart<cuda::SamplerRow>(N);
  sequences_ = addPart<cuda::SequenceState>(N);
  ids_ = addPart<int32_t>(N);
  pages_ = addPart<int32_t>(N * pagesPerRow_);
  positions_ = addPart<int32_t>(N);
  bundles_ = addPart<int32_t>(N + 1);
  place_ = addPart<int32_t>(1);
  stops_ = addPart<int32_t>(N * stopRoom_);
  seen_ = addPart<uint32_t>(penalties_ ? N * cuda::seenWords(vocab) : 0);
  state_ = deviceBytes(stateBytes_, model.device);
  stagedState_ = hostBytes(stateBytes_, model.device);
  const auto sizeOf = [](size_t bytes) { return static_cast<int64_t>(bytes); };
  blocks_ =
      deviceBytes(N * cuda::logitBlocks(vocab) * sizeOf(sizeof(cuda::LogitBlock)), model.device);
  tokens_ = deviceBytes(N * sizeOf(sizeof(cuda::SampledToken)), model.device);
  const int64_t historyBytes = kStepsPerLook * N * sizeOf(sizeof(cuda::SampledToken));
  history_ = deviceBytes(historyBytes, model.device);
  seenHistory_ = hostBytes(historyBytes, model.device);
  decoder.reserve(N, roundedUp(cuda::attentionSplits(longest_)));
}

at::Tensor GpuSteps::int32sOf(const Part& part, int64_t count) const {
  return state_.narrow(0, part.offset, count * 4).view(at::kInt);
}

std::vector<int32_t> GpuSteps::bundlesOf(const std::vector<GpuRow>& rows) const {
  const int64_t most = cuda::rowsPerBundle(model_.spec.numHeads / model_.spec.numKvHeads);
  std::vector<int32_t> begins;
  for (size_t n = 0; n < rows.size(); ++n) {
    const bool joins =
        n > 0 && rows[n].follows(rows[n - 1]) && static_cast<int64_t>(n) - begins.back() < most;
    if (!joins) begins.push_back(static_cast<int32_t>(n));
  }
  if (begins.size() == rows.size()) return {};
  begins.push_back(static_cast<int32_t>(rows.size()));
  return begins;
}

GpuSteps::Layout GpuSteps::layoutOf(const std::vector<GpuRow>& rows,
                                    const std::vector<int32_t>& bundles, int64_t steps) const {
  Layout layout;
  if (!bundles.empty()) {
    layout.bundles = std::min(roundedUp(std::ssize(bundles) - 1), capacity_);
  }
  int64_t longest = 0;
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto place = static_cast<int64_t>(n);
    if (n == 0 || rows[n].policy != rows[n - 1].policy) {
      layout.spans.push_back({rows[n].policy, place, place});
    }
    layout.spans.back().end = place + 1;
    // A row may end before the look does, so its last position bounds it, too.
    longest = std::max(longest, std::min(rows[n].position + steps, longest_));
  }
  layout.spans.back().end = roundedUp(std::ssize(rows));
  layout.splits = roundedUp(cuda::attentionSplits(longest));
  return layout;
}

// Idle rows have position -1 and read logits -1. Idle bundles have no rows.
void GpuSteps::upload(const std::vector<GpuRow>& rows, const std::vector<int32_t>& bundles,
                      const Layout& layout) {
  auto* samplers = samplers_.in<cuda::SamplerRow>(stagedState_);
  auto* sequences = sequences_.in<cuda::SequenceState>(stagedState_);
  auto *ids = ids_.in<int32_t>(stagedState_), *pages = pages_.in<int32_t>(stagedState_);
  auto *positions = positions_.in<int32_t>(stagedState_), *stops = stops_.in<int32_t>(stagedState_);
  const auto words = static_cast<size_t>(cuda::seenWords(model_.spec.vocabSize));
  for (size_t n = 0; n < static_cast<size_t>(layout.rows()); ++n) {
    const bool idle = n >= rows.size();
    ids[n] = idle ? 0 : rows[n].id;
    positions[n] = idle ? -1 : static_cast<int32_t>(rows[n].position);
    samplers[n] = {};
    samplers[n].logitsRow = samplers[n].seenRow = -1;
    if (idle) continue;
    const GpuRow& row = rows[n];
    std::copy_n(row.pages, row.pageCount, pages + static_cast<int64_t>(n) * pagesPerRow_);
    const SamplingOptions& o = row.request->sampling;
    samplers[n] = cuda::samplerRow(o.temperature, o.topK, o.topP, o.minP, o.repetitionPenalty);
    samplers[n].seed = row.request->seed;
    samplers[n].sample = row.sample;
    samplers[n].position = static_cast<uint64_t>(row.request->firstToken + row.drawn);
    samplers[n].logitsRow = static_cast<int32_t>(n);
    const std::vector<int32_t>& rowStops = row.request->stopIds;
    const auto stopBegin = static_cast<int32_t>(static_cast<int64_t>(n) * stopRoom_);
    std::copy(rowStops.begin(), rowStops.end(), stops + stopBegin);
    sequences[n] = {static_cast<int32_t>(row.request->maxNewTokens - row.drawn), stopBegin,
                    stopBegin + static_cast<int32_t>(rowStops.size())};
    if (row.seen == nullptr) continue;
    samplers[n].seenRow = static_cast<int32_t>(n);
    uint32_t* seen = seen_.in<uint32_t>(stagedState_) + n * words;
    std::fill_n(seen, words, 0);
    for (int32_t id : *row.seen) seen[id / 32] |= 1U << id % 32;
  }
  if (layout.bundles > 0) {
    auto* begins = bundles_.in<int32_t>(stagedState_);
    std::fill_n(std::copy(bundles.begin(), bundles.end(), begins),
                layout.bundles + 1 - std::ssize(bundles), bundles.back());
  }
  *place_.in<int32_t>(stagedState_) = 0;
  historyPlace_ = 0;
  // Nothing on the device still reads the staged bytes: the host has waited for the last steps.
  state_.copy_(stagedState_, /*non_blocking=*/true);
}

void GpuSteps::step(const Layout& layout) {
  const int64_t N = layout.rows(), vocab = model_.spec.vocabSize;
  void* stream = currentGpuStream(model_.device);
  const at::Tensor logits_NV = decoder_.decodeOnDevice(
      {.ids_N = int32sOf(ids_, N),
       .pages_NT = int32sOf(pages_, N * pagesPerRow_).view({N, -1}),
       .positions_N = int32sOf(positions_, N),
       .bundles_B1 = layout.bundles == 0 ? at::Tensor() : int32sOf(bundles_, layout.bundles + 1)},
      layout.spans, layout.splits, cache_);
  const cuda::SamplerArgs sampler{.logits_MV = logits_NV.const_data_ptr<float>(),
                                  .rows_N = samplers_.in<cuda::SamplerRow>(state_),
                                  .seen_SW = penalties_ ? seen_.in<uint32_t>(state_) : nullptr,
                                  .blocks_NB = static_cast<cuda::LogitBlock*>(blocks_.data_ptr()),
                                  .tokens_N = static_cast<cuda::SampledToken*>(tokens_.data_ptr()),
                                  .stride = logits_NV.stride(0),
                                  .vocab = static_cast<int32_t>(vocab)};
  const auto rows = static_cast<uint32_t>(N);
  kernels_.launch(KernelId::sampler_blocks, {rows, static_cast<uint32_t>(cuda::samplerGrid(vocab))},
                  sampler, stream);
  kernels_.launch(KernelId::sampler_draw, {rows}, sampler, stream);
  kernels_.launch(
      KernelId::advance, {},
      cuda::AdvanceArgs{.tokens_N = sampler.tokens_N,
                        .history_CN = static_cast<cuda::SampledToken*>(history_.data_ptr()),
                        .place = place_.in<int32_t>(state_),
                        .sequences_N = sequences_.in<cuda::SequenceState>(state_),
                        .rows_N = samplers_.in<cuda::SamplerRow>(state_),
                        .ids_N = ids_.in<int32_t>(state_),
                        .positions_N = positions_.in<int32_t>(state_),
                        .stopIds = stops_.in<int32_t>(state_),
                        .rows = static_cast<int32_t>(N),
                        .capacity = kStepsPerLook},
      stream);
}

// A layout that is met again becomes a graph. The first time, libtorch allocates what it keeps for
// good, such as the workspace of its products.
void GpuSteps::startStep(const Layout& layout) {
  if (!noGraphsBecause_.empty()) return step(layout);
  const auto [found, isNew] = graphs_.try_emplace(layout);
  Recorded& recorded = found->second;
  recorded.lastStart = ++starts_;
  if (isNew) {
    forgetGraphs();
    return step(layout);
  }
  if (!recorded.graph) {
    try {
      recorded.graph.emplace(
          GpuGraph::record(kernels_.runtime(), model_.device, [&] { step(layout); }));
    } catch (const std::exception& error) {
      // Recording runs nothing, so the step can still be made; the caller is told the reason.
      noGraphsBecause_ = error.what();
      return step(layout);
    }
  }
  recorded.graph->launch();
}

// A graph that still runs is freed by CUDA when it has ended.
void GpuSteps::forgetGraphs() {
  if (graphs_.size() <= kMostGraphs) return;
  graphs_.erase(std::min_element(graphs_.begin(), graphs_.end(), [](const auto& a, const auto& b) {
    return a.second.lastStart < b.second.lastStart;
  }));
}

std::vector<Draw> GpuSteps::download(size_t rows, const Layout& layout, int64_t steps) {
  const auto perStep = layout.rows() * static_cast<int64_t>(sizeof(cuda::SampledToken));
  const int64_t bytes = kStepsPerLook * perStep;
  seenHistory_.narrow(0, 0, bytes).copy_(history_.narrow(0, 0, bytes), /*non_blocking=*/true);
  waitForGpu(model_.device);
  const auto* history = static_cast<const cuda::SampledToken*>(seenHistory_.const_data_ptr());
  std::vector<Draw> draws;
  draws.reserve(static_cast<size_t>(steps) * rows);
  for (int64_t s = 0; s < steps; ++s) {
    const cuda::SampledToken* row = history + (historyPlace_ + s) % kStepsPerLook * layout.rows();
    for (size_t n = 0; n < rows; ++n) {
      draws.push_back({row[n].id, row[n].logprob, row[n].entropy, row[n].finite != 0});
    }
  }
  historyPlace_ = (historyPlace_ + steps) % kStepsPerLook;
  return draws;
}

std::vector<Draw> GpuSteps::run(const std::vector<GpuRow>& rows, int64_t most) {
  int64_t steps = 1;
  for (const GpuRow& row : rows) {
    steps = std::max(steps, std::min(most, row.request->maxNewTokens - row.drawn));
  }
  const std::vector<int32_t> bundles = bundlesOf(rows);
  Layout layout = layoutOf(rows, bundles, steps);
  if (rows != expected_ || layout.spans != layout_.spans) upload(rows, bundles, layout);
  layout_ = layout;
  for (int64_t s = 0; s < steps; ++s) startStep(layout);
  const std::vector<Draw> draws = download(rows.size(), layout, steps);
  expected_.clear();
  if (!bundles.empty()) return draws;  // what was drawn decides which rows come next
  expected_ = rows;
  for (size_t n = 0; n < rows.size(); ++n) {
    GpuRow& row = expected_[n];
    row.id = draws[(static_cast<size_t>(steps) - 1) * rows.size() + n].id;
    row.position += steps;
    row.drawn += steps;
  }
  return draws;
}

}  // namespace acoer
