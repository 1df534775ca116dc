#include "generate/decode.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "kernels/cpu/kernels.h"
#include "ops/linear.h"
#include "ops/merged.h"
#include "ops/ops.h"

namespace acoer {
namespace {

// Fewer rows than this are not worth a thread of their own.
constexpr int64_t kMinShareRows = 32;

at::ScalarType wideType(at::ScalarType dtype) {
  return dtype == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace

void DecodeRows::clear() {
  ids.clear();
  slots.clear();
  positions.clear();
  shared.clear();
  spans.clear();
}

void DecodeRows::add(int64_t policy, int32_t id, int64_t slot, int64_t position,
                     const KvCache* sharedPositions) {
  if (spans.empty() || spans.back().policy != policy) spans.push_back({policy, count(), count()});
  ids.push_back(id);
  slots.push_back(static_cast<int32_t>(slot));
  positions.push_back(static_cast<int32_t>(position));
  shared.push_back(sharedPositions);
  spans.back().end = count();
}

std::vector<const Policy*> Decoder::orderPolicies(const std::vector<const Policy*>& policies) {
  std::vector<const Policy*> ordered;
  for (bool full : {false, true}) {
    for (const Policy* policy : policies) {
      const bool isFull = policy != nullptr && !policy->isLora();
      const bool known = std::find(ordered.begin(), ordered.end(), policy) != ordered.end();
      if (isFull == full && !known) ordered.push_back(policy);
    }
  }
  return ordered;
}

Decoder::Decoder(const Model& model, std::vector<const Policy*> policies, int64_t positions,
                 DecodePath path, const GpuKernels* kernels)
    : model_(model),
      policies_(std::move(policies)),
      kernels_(kernels),
      ops_(kernels != nullptr                                   ? Ops::kGpuKernels
           : path == DecodePath::kAuto && model.device.is_cpu() ? Ops::kCpuKernels
                                                                : Ops::kTensorOps) {
  const bool onCpu = ops_ == Ops::kCpuKernels;
  form_ = chooseForm(model, onCpu);
  const RopeTable table = ropeTable(model.spec, positions, model.device, model.dtype);
  auto rounded = [&](const at::Tensor& t) {
    return t.to(model.dtype).to(onCpu ? wideType(model.dtype) : model.dtype).contiguous();
  };
  rope_ = {rounded(table.cos_PK), rounded(table.sin_PK)};
  std::optional<size_t> base;  // its weights, which adapters that are not merged share
  for (const Policy* policy : policies_) {
    const bool lora = policy != nullptr && policy->isLora();
    const bool merges = lora && form_ == LinearForm::kSmall;
    adapters_.push_back(lora && !merges ? makeDecodeAdapter(*policy, form_) : DecodeAdapter{});
    maxRanks_ = std::max(maxRanks_, adapters_.back().maxRanks);
    const bool usesBase = policy == nullptr || (lora && !merges);
    weightsOf_.push_back(usesBase && base ? *base : weights_.size());
    if (weightsOf_.back() < weights_.size()) continue;
    if (usesBase) base = weights_.size();
    weights_.push_back(makeDecodeWeights(usesBase ? model.weights
                                         : merges ? mergedWeights(*policy)
                                                  : policy->full,
                                         form_));
  }
}

KvCache Decoder::makeCache() const {
  return KvCache(model_.spec, model_.device, model_.dtype, ops_ == Ops::kCpuKernels);
}

void Decoder::makeRoom(Scratch& scratch, int64_t rows) const {
  if (rows <= scratch.room) return;
  const ModelSpec& spec = model_.spec;
  const auto options = at::device(model_.device).dtype(model_.dtype);
  scratch.room = rows;
  scratch.x_ND = at::empty({rows, spec.hiddenSize}, options);
  scratch.normed_ND = at::empty({rows, spec.hiddenSize}, options);
  scratch.qkv_NE = at::empty({rows, spec.qkvRows()}, options);
  scratch.heads_NHK = at::empty({rows, spec.qRows()}, options);
  scratch.gateUp_N2F = at::empty({rows, 2 * spec.intermediateSize}, options);
  scratch.act_NF = at::empty({rows, spec.intermediateSize}, options);
  scratch.ranks_NR = at::empty({rows, std::max<int64_t>(1, maxRanks_)}, options);
}

void Decoder::ensureRoom(int64_t rows) {
  makeRoom(steps_, rows);
  if (logits_NV_.defined() && logits_NV_.size(0) >= rows) return;
  const auto options = at::device(model_.device).dtype(wideType(model_.dtype));
  logits_NV_ = at::empty({rows, model_.spec.vocabSize}, options);
}

Decoder::Part Decoder::makePart(const std::vector<DecodeRows::Span>& spans, const KvCache& cache,
                                const DecodeWeights& weights, int64_t begin, int64_t end,
                                const Scratch& scratch, int64_t first) const {
  Part part;
  part.spans = &spans;
  part.cache = &cache;
  part.weights = &weights;
  part.begin = begin;
  part.end = end;
  auto view = [&](const at::Tensor& whole) { return whole.narrow(0, first + begin, end - begin); };
  part.x_ND = view(scratch.x_ND);
  part.normed_ND = view(scratch.normed_ND);
  part.qkv_NE = view(scratch.qkv_NE);
  part.heads_NHK = view(scratch.heads_NHK);
  part.gateUp_N2F = view(scratch.gateUp_N2F);
  part.act_NF = view(scratch.act_NF);
  part.ranks_NR = view(scratch.ranks_NR);
  return part;
}

namespace {

// Ids, slots and positions of rows [begin, end) as [3, N], copied without waiting.
at::Tensor uploadRows(const DecodeRows& rows, int64_t begin, int64_t end, at::ScalarType type,
                      at::Device device) {
  const auto count = static_cast<size_t>(end - begin);
  std::vector<int32_t> all;
  for (const auto* column : {&rows.ids, &rows.slots, &rows.positions}) {
    const auto from = column->begin() + begin;
    all.insert(all.end(), from, from + static_cast<int64_t>(count));
  }
  return onDevice(at::tensor(all, type).view({3, end - begin}), device);
}

}  // namespace

void Decoder::placeRows(Part& part, const DecodeRows& rows, bool prefill) const {
  part.prefill = prefill;
  const int32_t* positions = rows.positions.data() + part.begin;
  const int32_t* slots = rows.slots.data() + part.begin;
  for (int64_t n = 0; prefill && n < part.count(); ++n) {
    if (n == 0 || slots[n] != slots[n - 1]) part.prompts.push_back({slots[n], n, n});
    part.prompts.back().end = n + 1;
  }
  if (ops_ == Ops::kCpuKernels) {
    part.ids_N = rows.ids.data() + part.begin;
    part.slots_N = slots;
    part.positions_N = positions;
    part.shared_N = rows.shared.data() + part.begin;
    return;
  }
  const bool kernels = ops_ == Ops::kGpuKernels;
  const at::Tensor all_3N =
      uploadRows(rows, part.begin, part.end, kernels ? at::kInt : at::kLong, model_.device);
  part.device = {all_3N.select(0, 0), all_3N.select(0, 1), all_3N.select(0, 2)};
  if (kernels) return;
  part.cos_NK = rope_.cos_PK.index_select(0, part.device.positions_N);
  part.sin_NK = rope_.sin_PK.index_select(0, part.device.positions_N);
  if (prefill) return;
  const int64_t longest = *std::max_element(positions, positions + part.count()) + 1;
  part.view = viewCache(slots, part.count(), KvCache::roundedPositions(longest),
                        part.device.slots_N, part.device.positions_N, model_.dtype);
}

void Decoder::forEachWeights(
    const std::vector<DecodeRows::Span>& spans,
    const std::function<void(const DecodeWeights&, int64_t, int64_t)>& visit) {
  for (size_t i = 0; i < spans.size();) {
    const size_t weights = weightsOf_[static_cast<size_t>(spans[i].policy)];
    const int64_t begin = spans[i].begin;
    int64_t end = begin;
    for (; i < spans.size() && weightsOf_[static_cast<size_t>(spans[i].policy)] == weights; ++i) {
      end = spans[i].end;
    }
    visit(weights_[weights], begin, end);
  }
}

// Rows [begin, end) divided into whole prompts of about as many rows for each thread; undivided
// where rows depend on each other.
std::vector<std::pair<int64_t, int64_t>> Decoder::promptShares(const DecodeRows& rows,
                                                               int64_t begin, int64_t end) const {
  const int64_t threads = rowsAreIndependent() ? at::get_num_threads() : 1;
  const int64_t share = std::max(kMinShareRows, (end - begin + threads - 1) / threads);
  std::vector<std::pair<int64_t, int64_t>> shares;
  for (int64_t from = begin; from < end;) {
    int64_t to = std::min(end, from + share);
    while (to < end &&
           rows.slots[static_cast<size_t>(to)] == rows.slots[static_cast<size_t>(to - 1)]) {
      ++to;
    }
    shares.emplace_back(from, to);
    from = to;
  }
  return shares;
}

void Decoder::prefill(const DecodeRows& rows, const KvCache& cache,
                      const std::function<bool(double done)>& shouldContinue) {
  makeRoom(prompts_, rows.count());
  forEachWeights(rows.spans, [&](const DecodeWeights& weights, int64_t begin, int64_t end) {
    std::vector<Part> parts;
    for (const auto& [from, to] : promptShares(rows, begin, end)) {
      parts.push_back(makePart(rows.spans, cache, weights, from, to, prompts_, 0));
      placeRows(parts.back(), rows, true);
      embed(parts.back());
    }
    // The last layer's output would only feed the logits, which are left to the decode step.
    const size_t layers = weights.layers.size();
    for (size_t layer = 0; layer < layers; ++layer) {
      const double ofPart = static_cast<double>(layer) / static_cast<double>(layers);
      const double rowsDone =
          static_cast<double>(begin) + ofPart * static_cast<double>(end - begin);
      if (!shouldContinue(rowsDone / static_cast<double>(rows.count()))) return;
      if (parts.size() == 1) {
        runLayer(parts[0], layer, layer + 1 == layers);
        continue;
      }
      at::parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t first, int64_t last) {
        const c10::NoGradGuard noGrad;  // grad mode is thread-local
        for (int64_t i = first; i < last; ++i) {
          runLayer(parts[static_cast<size_t>(i)], layer, layer + 1 == layers);
        }
      });
    }
  });
}

bool Decoder::rowsAreIndependent() const { return form_ == LinearForm::kSmall; }

at::Tensor Decoder::decode(const DecodeRows& rows, const KvCache& cache, int64_t first) {
  ensureRoom(first + rows.count());
  forEachWeights(rows.spans, [&](const DecodeWeights& weights, int64_t begin, int64_t end) {
    Part part = makePart(rows.spans, cache, weights, begin, end, steps_, first);
    part.logits_NV = logits_NV_.narrow(0, first + begin, end - begin);
    placeRows(part, rows, false);
    embed(part);
    for (size_t layer = 0; layer < weights.layers.size(); ++layer) runLayer(part, layer, false);
    writeLogits(part);
  });
  return logits_NV_.narrow(0, first, rows.count());
}

void Decoder::embed(Part& part) const {
  const at::Tensor& embed_VD = part.weights->embed_VD;
  if (ops_ != Ops::kCpuKernels) {
    // Without an allocation on a GPU, where this is recorded in graphs.
    if (inPanels(embed_VD)) {
      part.x_ND.copy_(rowsOf(embed_VD, part.device.ids_N));
    } else {
      at::index_select_out(part.x_ND, embed_VD, 0, part.device.ids_N);
    }
    return;
  }
  const int64_t rowBytes = model_.spec.hiddenSize * embed_VD.element_size();
  char* x = static_cast<char*>(part.x_ND.data_ptr());
  for (int64_t n = 0; n < part.count(); ++n) copyRow(embed_VD, part.ids_N[n], x + n * rowBytes);
}

void Decoder::addAdapters(const Part& part, size_t layer,
                          AdapterGroup DecodeAdapter::Layer::* group, const at::Tensor& x_NI,
                          const at::Tensor& y_NO) const {
  for (const DecodeRows::Span& span : *part.spans) {
    const DecodeAdapter& adapter = adapters_[static_cast<size_t>(span.policy)];
    const int64_t begin = std::max(span.begin, part.begin), end = std::min(span.end, part.end);
    if (adapter.layers.empty() || begin >= end) continue;
    const int64_t first = begin - part.begin, count = end - begin;
    const AdapterGroup& pairs = adapter.layers[layer].*group;
    if (ops_ == Ops::kGpuKernels) {
      adapterOnGpu(pairs, x_NI.narrow(0, first, count), y_NO.narrow(0, first, count),
                   part.ranks_NR);
    } else {
      addAdapter(pairs, x_NI, y_NO, part.ranks_NR, first, first + count);
    }
  }
}

void Decoder::multiply(const Linear& linear, const at::Tensor& x_NI, const at::Tensor& y_NO,
                       bool add) const {
  if (ops_ == Ops::kGpuKernels) return linearOnGpu(linear, x_NI, y_NO, add);
  applyLinear(linear, x_NI, y_NO, add);
}

void Decoder::runLayer(Part& part, size_t layer, bool lastOfPrefill) const {
  const DecodeLayer& w = part.weights->layers[layer];
  norm(part, w.inputNorm_D);
  multiply(w.qkv, part.normed_ND, part.qkv_NE, false);
  addAdapters(part, layer, &DecodeAdapter::Layer::qkv, part.normed_ND, part.qkv_NE);
  attention(part, layer, lastOfPrefill);
  if (lastOfPrefill) return;
  multiply(w.o, part.heads_NHK, part.x_ND, true);
  addAdapters(part, layer, &DecodeAdapter::Layer::o, part.heads_NHK, part.x_ND);
  norm(part, w.postNorm_D);
  multiply(w.gateUp, part.normed_ND, part.gateUp_N2F, false);
  addAdapters(part, layer, &DecodeAdapter::Layer::gateUp, part.normed_ND, part.gateUp_N2F);
  activation(part);
  multiply(w.down, part.act_NF, part.x_ND, true);
  addAdapters(part, layer, &DecodeAdapter::Layer::down, part.act_NF, part.x_ND);
}

void Decoder::norm(Part& part, const at::Tensor& weight_D) const {
  if (ops_ == Ops::kCpuKernels) return normOnCpu(part, weight_D);
  if (ops_ == Ops::kGpuKernels) return normOnGpu(part, weight_D);
  part.normed_ND.copy_(rmsNorm(part.x_ND, weight_D, model_.spec.rmsNormEps));
}

void Decoder::activation(Part& part) const {
  if (ops_ == Ops::kCpuKernels) return activationOnCpu(part);
  if (ops_ == Ops::kGpuKernels) return activationOnGpu(part);
  part.act_NF.copy_(swiglu(part.gateUp_N2F));
}

void Decoder::attention(Part& part, size_t layer, bool writeOnly) const {
  if (ops_ == Ops::kCpuKernels) return attentionOnCpu(part, layer, writeOnly);
  if (ops_ == Ops::kGpuKernels) return attentionOnGpu(part, layer, writeOnly);
  attentionByTensorOps(part, layer, writeOnly);
}

void Decoder::writeLogits(Part& part) const {
  norm(part, part.weights->finalNorm_D);
  const Linear& head = part.weights->head;
  const at::Tensor& logits = part.logits_NV;
  // A bf16 product would round the logits in steps of up to 0.125, so they are computed in fp32.
  if (model_.dtype == logits.scalar_type() || ops_ == Ops::kGpuKernels) {
    multiply(head, part.normed_ND, logits, false);
  } else {
    linearForwardInto(logits, part.normed_ND, head.w);
  }
}

}  // namespace acoer
