// The decoder's steps between the matrix products, with CPU kernels.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "base/error.h"
#include "generate/decode_ops.h"
#include "kernels/cpu/dispatch.h"
#include "ops/adapters.h"
#include "ops/norm.h"

namespace acoer {
namespace {

// Prompts up to this length are attended row by row over the cache, longer ones in blocks, as in
// training, or by the library, over the keys and values that the cache holds. This depends on
// nothing but the prompt's own length, so that the batch cannot change a result.
constexpr int64_t kShortPrompt = 128;

// The library's attention multiplies bf16 by tiles where it can, ours widens it to fp32.
bool libraryIsFaster(const at::Tensor& q_THK) {
  const auto type = q_THK.scalar_type();
  return (type == at::kBFloat16 && kernels::usesTiles()) ||
         !isSmallAttention(q_THK.device(), type, q_THK.size(0));
}

// [T, H * K]
at::Tensor attendLongPrompt(const Heads& prompt) {
  const at::Tensor& q_THK = prompt.q_THK;
  const int64_t length = q_THK.size(0);
  if (libraryIsFaster(q_THK)) return attendPrompt(prompt);
  PackedLayout layout;
  layout.longest = length;
  layout.sequences = {{.own = 0, .length = length}};
  return attention(prompt, layout, nullptr).flatten(1);
}

template <class Visit>
void withModelType(at::ScalarType dtype, const Visit& visit) {
  if (withKernelType(dtype, visit)) return;
  fail(ErrorCode::kBadArgument,
       "decoding on a CPU supports float32, float64 and bfloat16 models, not ",
       c10::toString(dtype));
}

template <class T, class C>
kernels::AttentionArgs<T, C> narrowed(kernels::AttentionArgs<T, C> args, int64_t begin,
                                      int64_t end) {
  args.qkv_NE += begin * (args.heads + 2 * args.kvHeads) * args.headDim;
  args.out_NHK += begin * args.heads * args.headDim;
  args.page_NT += begin * args.pagesPerRow;
  args.position_N += begin;
  if (args.shared_N) args.shared_N += begin;
  args.rows = end - begin;
  return args;
}

// What each row shares, of one layer; empty if none shares anything.
template <class C>
std::vector<kernels::SharedPositions<C>> sharedOfLayer(const KvCache* const* shared_N, int64_t rows,
                                                       int64_t layer) {
  std::vector<kernels::SharedPositions<C>> all;
  if (std::all_of(shared_N, shared_N + rows, [](const KvCache* c) { return c == nullptr; })) {
    return all;
  }
  all.resize(static_cast<size_t>(rows));
  for (int64_t r = 0; r < rows; ++r) {
    const KvCache* cache = shared_N[r];
    if (cache == nullptr) continue;
    all[static_cast<size_t>(r)] = {
        readPointer<C>(cache->keys(layer)), readPointer<C>(cache->values(layer)),
        scalesOf(cache->keyScales(layer)), scalesOf(cache->valueScales(layer)), cache->positions()};
  }
  return all;
}

Matrix::Form formOnCpu(const Model& model) {
  if (model.dtype == at::kBFloat16) return Matrix::Form::kPanels;
  return mergesAdapters(model) ? Matrix::Form::kPacked : Matrix::Form::kPlain;
}

class CpuDecodeOps final : public DecodeOps {
 public:
  // The kernels read angles as fp32 (fp64).
  CpuDecodeOps(const Model& model, int64_t positions)
      : DecodeOps(model, formOnCpu(model), positions, wideType(model.dtype)) {}

  bool usesTiledKeys() const override { return true; }

  void placeRows(DecodePart& part, const DecodeRows& rows) const override {
    part.ids_N = rows.ids.data() + part.begin;
    part.pages_NT = rows.pages_NT.data() + part.begin * rows.pagesPerRow;
    part.pagesPerRow = rows.pagesPerRow;
    part.positions_N = rows.positions.data() + part.begin;
    part.shared_N = rows.shared.data() + part.begin;
  }

  void embed(DecodePart& part) const override {
    const Matrix& embed_VD = part.weights->embed_VD;
    const int64_t rowBytes = model_.spec.hiddenSize * part.x_ND.element_size();
    char* x = static_cast<char*>(part.x_ND.data_ptr());
    for (int64_t n = 0; n < part.count(); ++n) embed_VD.copyRow(part.ids_N[n], x + n * rowBytes);
  }

  void norm(DecodePart& part, const at::Tensor& weight_D) const override {
    const int64_t rows = part.count(), width = model_.spec.hiddenSize;
    withModelType(model_.dtype, [&](auto type) {
      using T = decltype(type);
      const kernels::RmsRotation<T> norm{.weight = readPointer<T>(weight_D),
                                         .eps = model_.spec.rmsNormEps};
      const kernels::Rows<const T> x{readPointer<T>(part.x_ND), rows, 1, width, width};
      const kernels::Rows<T> y{writePointer<T>(part.normed_ND), rows, 1, width, width};
      at::parallel_for(0, rows, rowGrain(width), [&](int64_t begin, int64_t end) {
        kernels::rowKernels<T>().rmsRotate(norm, x, y, nullptr, begin, end);
      });
    });
  }

  void attention(DecodePart& part, size_t layer, bool writeOnly) const override {
    withModelType(model_.dtype, [&](auto type) {
      using T = decltype(type);
      if (part.cache->isQuantized()) {
        attentionOver<T, int8_t>(part, layer, writeOnly);
      } else {
        attentionOver<T, T>(part, layer, writeOnly);
      }
    });
  }

  void activation(DecodePart& part) const override { cpuSwiglu(part.gateUp_N2F, part.act_NF); }

 private:
  template <class T, class C>
  void attentionOver(DecodePart& part, size_t layer, bool writeOnly) const {
    const ModelSpec& spec = model_.spec;
    const auto number = static_cast<int64_t>(layer);
    kernels::AttentionArgs<T, C> args = argsOf<T, C>(part, layer);
    const auto shared = sharedOfLayer<C>(part.shared_N, part.count(), number);
    if (!shared.empty()) args.shared_N = shared.data();
    const auto& kernel = kernels::cacheKernels<T, C>();
    at::parallel_for(0, part.count(), rowGrain(spec.qkvRows()),
                     [&](int64_t begin, int64_t end) { kernel.writeHeads(args, begin, end); });
    if (writeOnly) return;
    auto attendRows = [&](const kernels::AttentionArgs<T, C>& some) {
      const int64_t longest = *std::max_element(some.position_N, some.position_N + some.rows) + 1;
      at::parallel_for(0, some.rows * spec.numKvHeads,
                       rowGrain(longest * spec.headDim * spec.numHeads / spec.numKvHeads),
                       [&](int64_t from, int64_t to) { kernel.attend(some, from, to); });
    };
    if (!part.prefill) return attendRows(args);
    for (const PromptSpan& span : part.prompts) {
      if (span.end - span.begin <= kShortPrompt) {
        attendRows(narrowed(args, span.begin, span.end));
        continue;
      }
      const at::Tensor prompt_TE = part.qkv_NE.slice(0, span.begin, span.end);
      part.heads_NHK.slice(0, span.begin, span.end)
          .copy_(attendLongPrompt(splitHeads(spec, prompt_TE)));
    }
  }

  template <class T, class C>
  kernels::AttentionArgs<T, C> argsOf(const DecodePart& part, size_t layer) const {
    const ModelSpec& spec = model_.spec;
    const LayerWeights& w = part.weights->layers[layer];
    const KvCache& cache = *part.cache;
    const auto number = static_cast<int64_t>(layer);
    kernels::AttentionArgs<T, C> args;
    args.qkv_NE = writePointer<T>(part.qkv_NE);
    args.keys_SJLK = writePointer<C>(cache.keys(number));
    args.values_SJLK = writePointer<C>(cache.values(number));
    args.keyScales_SJL = scalesOf(cache.keyScales(number));
    args.valueScales_SJL = scalesOf(cache.valueScales(number));
    args.out_NHK = writePointer<T>(part.heads_NHK);
    args.page_NT = part.pages_NT;
    args.pagesPerRow = part.pagesPerRow;
    args.position_N = part.positions_N;
    args.rows = part.count();
    args.heads = spec.numHeads;
    args.kvHeads = spec.numKvHeads;
    args.headDim = spec.headDim;
    args.pagePositions = cache.positions();
    args.qNorm_K = spec.qkNorm ? readPointer<T>(w.qNorm_K) : nullptr;
    args.kNorm_K = spec.qkNorm ? readPointer<T>(w.kNorm_K) : nullptr;
    args.cos_PK = readPointer<kernels::Acc<T>>(rope_.cos_PK);
    args.sin_PK = readPointer<kernels::Acc<T>>(rope_.sin_PK);
    args.eps = spec.rmsNormEps;
    return args;
  }
};

}  // namespace

std::unique_ptr<DecodeOps> cpuDecodeOps(const Model& model, int64_t positions) {
  return std::make_unique<CpuDecodeOps>(model, positions);
}

}  // namespace acoer
