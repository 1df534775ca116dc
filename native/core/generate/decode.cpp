#include "generate/decode.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "kernels/gpu/kernels.h"
#include "model/lora.h"

namespace acoer {
namespace {

// Rows that extend() takes at a time: without our kernels each gets a copy of the keys it sees.
constexpr int64_t kExtendRows = 64;

// Fewer rows than this are not worth a thread of their own.
constexpr int64_t kMinShareRows = 32;

// All of them.
constexpr at::Tensor DecodeBuffers::* kBuffers[] = {
    &DecodeBuffers::x_ND,      &DecodeBuffers::normed_ND,  &DecodeBuffers::qkv_NE,
    &DecodeBuffers::heads_NHK, &DecodeBuffers::gateUp_N2F, &DecodeBuffers::act_NF,
    &DecodeBuffers::ranks_NR};

// Packed once for all products of the decoder's life. Panels are in their form already.
Weights packed(Weights weights) {
  weights.head_VD = weights.head_VD.in(Matrix::Form::kPacked);
  for (LayerWeights& layer : weights.layers) {
    for (const FusedMatrix& fused : kFusedMatrices) {
      layer.*fused.weights = (layer.*fused.weights).in(Matrix::Form::kPacked);
    }
  }
  return weights;
}

}  // namespace

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
                 DecodePath path, const GpuKernels* kernels, KvCacheDtype kvCacheDtype)
    : model_(model),
      policies_(std::move(policies)),
      cacheType_(elementType(kvCacheDtype, model.dtype)),
      ops_(makeDecodeOps(model, positions, path, kernels)) {
  const bool packs = ops_->form() == Matrix::Form::kPacked;
  std::optional<size_t> base;  // its weights, which adapters that are not merged share
  for (const Policy* policy : policies_) {
    const bool lora = policy != nullptr && policy->isLora();
    const bool merges = lora && packs;
    adapters_.push_back(lora && !merges ? makeDecodeAdapter(*policy, ops_->form())
                                        : DecodeAdapter{});
    maxRanks_ = std::max(maxRanks_, adapters_.back().maxRanks);
    const bool usesBase = policy == nullptr || (lora && !merges);
    weightsOf_.push_back(usesBase && base ? *base : weights_.size());
    if (weightsOf_.back() < weights_.size()) continue;
    if (usesBase) base = weights_.size();
    Weights weights = usesBase ? model.weights : merges ? mergedWeights(*policy) : policy->full;
    weights_.push_back(packs ? packed(std::move(weights)) : std::move(weights));
  }
}

KvCache Decoder::makeCache() const {
  return KvCache(model_.spec, model_.device, cacheType_, ops_->usesTiledKeys());
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

DecodePart Decoder::makePart(const std::vector<DecodeRows::Span>& spans, const KvCache& cache,
                             const Weights& weights, int64_t begin, int64_t end,
                             const Scratch& scratch, int64_t first) const {
  DecodePart part;
  part.spans = &spans;
  part.cache = &cache;
  part.weights = &weights;
  part.begin = begin;
  part.end = end;
  for (at::Tensor DecodeBuffers::* buffer : kBuffers) {
    part.*buffer = (scratch.*buffer).narrow(0, first + begin, end - begin);
  }
  return part;
}

void Decoder::placeRows(DecodePart& part, const DecodeRows& rows, bool prefill) const {
  part.prefill = prefill;
  const int32_t* slots = rows.pages_NT.data() + part.begin;  // of prompts
  for (int64_t n = 0; prefill && n < part.count(); ++n) {
    if (n == 0 || slots[n] != slots[n - 1]) part.prompts.push_back({slots[n], n, n});
    part.prompts.back().end = n + 1;
  }
  ops_->placeRows(part, rows);
}

void Decoder::forEachWeights(const std::vector<DecodeRows::Span>& spans,
                             const std::function<void(const Weights&, int64_t, int64_t)>& visit) {
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
           rows.pages_NT[static_cast<size_t>(to)] == rows.pages_NT[static_cast<size_t>(to - 1)]) {
      ++to;
    }
    shares.emplace_back(from, to);
    from = to;
  }
  return shares;
}

void Decoder::prefill(const DecodeRows& rows, const KvCache& cache,
                      const ShouldContinue& shouldContinue) {
  makeRoom(prompts_, rows.count());
  forEachWeights(rows.spans, [&](const Weights& weights, int64_t begin, int64_t end) {
    std::vector<DecodePart> parts;
    for (const auto& [from, to] : promptShares(rows, begin, end)) {
      parts.push_back(makePart(rows.spans, cache, weights, from, to, prompts_, 0));
      placeRows(parts.back(), rows, true);
      ops_->embed(parts.back());
    }
    runLayers(parts, begin, end, rows.count(), shouldContinue);
  });
}

// Runs parts that make up rows [begin, end) of `rows`; false once they are not to continue. The
// last layer's output would only feed the logits, which are left to the decode step.
bool Decoder::runLayers(std::vector<DecodePart>& parts, int64_t begin, int64_t end, int64_t rows,
                        const ShouldContinue& shouldContinue) const {
  const size_t layers = parts.front().weights->layers.size();
  for (size_t layer = 0; layer < layers; ++layer) {
    const double ofParts = static_cast<double>(layer) / static_cast<double>(layers);
    const double rowsDone = static_cast<double>(begin) + ofParts * static_cast<double>(end - begin);
    if (!shouldContinue(rowsDone / static_cast<double>(rows))) return false;
    if (parts.size() == 1) {
      runLayer(parts[0], layer, layer + 1 == layers);
      continue;
    }
    at::parallel_for(0, std::ssize(parts), 1, [&](int64_t first, int64_t last) {
      const c10::NoGradGuard noGrad;  // grad mode is thread-local
      for (int64_t i = first; i < last; ++i) {
        runLayer(parts[static_cast<size_t>(i)], layer, layer + 1 == layers);
      }
    });
  }
  return true;
}

void Decoder::extend(const DecodeRows& rows, const KvCache& cache,
                     const ShouldContinue& shouldContinue) {
  makeRoom(prompts_, rows.count());
  const int64_t longest = *std::max_element(rows.positions.begin(), rows.positions.end()) + 1;
  int64_t most = kExtendRows;
  while (most > 1 && !ops_->hasReserved(most, cuda::attentionSplits(longest))) most /= 2;
  forEachWeights(rows.spans, [&](const Weights& weights, int64_t begin, int64_t end) {
    for (int64_t from = begin; from < end; from += most) {
      const int64_t to = std::min(end, from + most);
      std::vector<DecodePart> piece{makePart(rows.spans, cache, weights, from, to, prompts_, 0)};
      placeRows(piece[0], rows, false);
      ops_->embed(piece[0]);
      if (!runLayers(piece, from, to, rows.count(), shouldContinue)) return;
    }
  });
}

bool Decoder::rowsAreIndependent() const { return ops_->form() == Matrix::Form::kPacked; }

at::Tensor Decoder::decode(const DecodeRows& rows, const KvCache& cache, int64_t first) {
  ensureRoom(first + rows.count());
  forEachWeights(rows.spans, [&](const Weights& weights, int64_t begin, int64_t end) {
    DecodePart part = makePart(rows.spans, cache, weights, begin, end, steps_, first);
    placeRows(part, rows, false);
    runStep(part, first);
  });
  return logits_NV_.narrow(0, first, rows.count());
}

void Decoder::addAdapters(const DecodePart& part, size_t layer,
                          AdapterGroup DecodeAdapter::Layer::* group, const at::Tensor& x_NI,
                          const at::Tensor& y_NO) const {
  for (const DecodeRows::Span& span : *part.spans) {
    const DecodeAdapter& adapter = adapters_[static_cast<size_t>(span.policy)];
    const int64_t begin = std::max(span.begin, part.begin), end = std::min(span.end, part.end);
    if (adapter.layers.empty() || begin >= end) continue;
    const int64_t first = begin - part.begin, count = end - begin;
    ops_->addAdapter(adapter.layers[layer].*group, x_NI.narrow(0, first, count),
                     y_NO.narrow(0, first, count), part.ranks_NR);
  }
}

void Decoder::activate(DecodePart& part, size_t layer) const {
  for (const DecodeRows::Span& span : *part.spans) {
    const DecodeAdapter& adapter = adapters_[static_cast<size_t>(span.policy)];
    if (adapter.layers.empty() || span.begin > part.begin || span.end < part.end) continue;
    return ops_->activateAdapted(part, adapter.layers[layer].gateUp);
  }
  addAdapters(part, layer, &DecodeAdapter::Layer::gateUp, part.normed_ND, part.gateUp_N2F);
  ops_->activation(part);
}

void Decoder::runLayer(DecodePart& part, size_t layer, bool lastOfPrefill) const {
  const LayerWeights& w = part.weights->layers[layer];
  ops_->norm(part, w.inputNorm_D);
  ops_->multiply(w.qkv_ED, part.normed_ND, part.qkv_NE, {.bias_O = w.qkvBias_E});
  addAdapters(part, layer, &DecodeAdapter::Layer::qkv, part.normed_ND, part.qkv_NE);
  ops_->attention(part, layer, lastOfPrefill);
  if (lastOfPrefill) return;
  ops_->multiply(w.o_DHK, part.heads_NHK, part.x_ND, {.add = true});
  addAdapters(part, layer, &DecodeAdapter::Layer::o, part.heads_NHK, part.x_ND);
  ops_->norm(part, w.postNorm_D);
  ops_->multiply(w.gateUp_2FD, part.normed_ND, part.gateUp_N2F, {});
  activate(part, layer);
  ops_->multiply(w.down_DF, part.act_NF, part.x_ND, {.add = true});
  addAdapters(part, layer, &DecodeAdapter::Layer::down, part.act_NF, part.x_ND);
}

void Decoder::runStep(DecodePart& part, int64_t first) const {
  part.logits_NV = logits_NV_.narrow(0, first + part.begin, part.count());
  ops_->embed(part);
  for (size_t layer = 0; layer < part.weights->layers.size(); ++layer) runLayer(part, layer, false);
  ops_->norm(part, part.weights->finalNorm_D);
  // A bf16 product would round the logits in steps of up to 0.125, so they are computed in fp32.
  ops_->multiply(part.weights->head_VD, part.normed_ND, part.logits_NV, {});
}

void Decoder::reserve(int64_t rows, int64_t splits) {
  ensureRoom(rows);
  ops_->reserve(rows, splits);
}

at::Tensor Decoder::decodeOnDevice(const DeviceRows& rows,
                                   const std::vector<DecodeRows::Span>& spans, int64_t splits,
                                   const KvCache& cache) {
  const int64_t count = spans.back().end;
  if (count > steps_.room || !ops_->hasReserved(count, splits)) {
    fail(ErrorCode::kInternal, "a decode step of ", count, " rows and ", splits,
         " blocks of attention has no room");
  }
  forEachWeights(spans, [&](const Weights& weights, int64_t begin, int64_t end) {
    DecodePart part = makePart(spans, cache, weights, begin, end, steps_, 0);
    auto view = [&](const at::Tensor& whole) { return whole.narrow(0, begin, end - begin); };
    part.device = {view(rows.ids_N), view(rows.pages_NT), view(rows.positions_N)};
    if (end - begin == count) part.device.bundles_B1 = rows.bundles_B1;
    part.splits = splits;
    runStep(part, 0);
  });
  return logits_NV_.narrow(0, 0, count);
}

}  // namespace acoer
