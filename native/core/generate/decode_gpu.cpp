// The decoder's steps between the matrix products, with our CUDA kernels.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "generate/decode_ops.h"
#include "kernels/gpu/kernels.h"
#include "ops/gpu_lora.h"
#include "ops/gpu_ops.h"

namespace acoer {
namespace {

using cuda::KernelId;

uint32_t size(int64_t n) { return static_cast<uint32_t>(n); }

const int32_t* int32s(const at::Tensor& t) { return t.const_data_ptr<int32_t>(); }

const void* dataOrNull(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }

class GpuDecodeOps final : public DecodeOps {
 public:
  GpuDecodeOps(const Model& model, int64_t positions, const GpuKernels& kernels)
      : DecodeOps(model, Matrix::Form::kPlain, positions, model.dtype), kernels_(kernels) {}

  void placeRows(DecodePart& part, const DecodeRows& rows) const override {
    part.device = uploadRows(rows, part.begin, part.end, at::kInt, model_.device);
    if (part.prefill) return;
    const int32_t* positions = rows.positions.data() + part.begin;
    const int32_t longest = *std::max_element(positions, positions + part.count()) + 1;
    part.splits = cuda::attentionSplits(longest);
  }

  void norm(DecodePart& part, const at::Tensor& weight_D) const override {
    startNorm(kernels_, part.x_ND, {}, weight_D, model_.spec.rmsNormEps, {part.normed_ND, {}});
  }

  // Queries are normed, if the model has norms for them, and rotated in place; keys and values go
  // to the cache.
  void attention(DecodePart& part, size_t layer, bool writeOnly) const override {
    const ModelSpec& spec = model_.spec;
    const LayerWeights& w = part.weights->layers[layer];
    const bool bf16 = model_.dtype == at::kBFloat16;
    void* stream = currentGpuStream(model_.device);
    const KvCache& cache = *part.cache;
    const auto number = static_cast<int64_t>(layer);
    const at::Tensor &keys_SJLK = cache.keys(number), &values_SJLK = cache.values(number);
    float *keyScales_SJL = scalesOf(cache.keyScales(number)),
          *valueScales_SJL = scalesOf(cache.valueScales(number));
    const auto heads = static_cast<int32_t>(spec.numHeads);
    const auto kvHeads = static_cast<int32_t>(spec.numKvHeads);
    const auto headDim = static_cast<int32_t>(spec.headDim);
    const auto pagesPerRow = static_cast<int32_t>(part.device.pages_NT.size(1));
    const auto pagePositions = static_cast<int32_t>(cache.positions());
    kernels_.launch(cuda::rotateKernel(bf16, cache.isQuantized()),
                    {size(part.count()), size(cuda::rotateBlocks(heads, kvHeads))},
                    cuda::RotateArgs{.qkv_NE = part.qkv_NE.const_data_ptr(),
                                     .qNorm_K = dataOrNull(w.qNorm_K),
                                     .kNorm_K = dataOrNull(w.kNorm_K),
                                     .cos_PK = rope_.cos_PK.const_data_ptr(),
                                     .sin_PK = rope_.sin_PK.const_data_ptr(),
                                     .pages_NT = int32s(part.device.pages_NT),
                                     .positions_N = int32s(part.device.positions_N),
                                     .q_NHK = part.qkv_NE.data_ptr(),
                                     .keys_SJLK = keys_SJLK.data_ptr(),
                                     .values_SJLK = values_SJLK.data_ptr(),
                                     .keyScales_SJL = keyScales_SJL,
                                     .valueScales_SJL = valueScales_SJL,
                                     .qStride = spec.qkvRows(),
                                     .heads = heads,
                                     .kvHeads = kvHeads,
                                     .headDim = headDim,
                                     .pagesPerRow = pagesPerRow,
                                     .pagePositions = pagePositions,
                                     .eps = static_cast<float>(spec.rmsNormEps)},
                    stream);
    if (writeOnly) return;
    if (part.prefill) {
      const at::Tensor q_NHK = splitHeads(spec, part.qkv_NE).q_THK;
      for (const PromptSpan& span : part.prompts) {
        part.heads_NHK.slice(0, span.begin, span.end)
            .copy_(attendPrompt({q_NHK.slice(0, span.begin, span.end),
                                 promptIn(span, cache, keys_SJLK, cache.keyScales(number)),
                                 promptIn(span, cache, values_SJLK, cache.valueScales(number))}));
      }
      return;
    }
    const auto group = heads / kvHeads;
    const auto splits = static_cast<int32_t>(part.splits);
    const at::Tensor& bundles_B1 = part.device.bundles_B1;
    const int64_t bundles = bundles_B1.defined() ? bundles_B1.size(0) - 1 : part.count();
    const int64_t queries = bundles_B1.defined() ? group * cuda::rowsPerBundle(group) : group;
    kernels_.launch(
        cuda::attentionKernel(bf16, cache.isQuantized(), headDim, queries),
        {size(splits), size(kvHeads), size(bundles)},
        cuda::AttentionArgs{.q_NHK = part.qkv_NE.const_data_ptr(),
                            .keys_SJLK = keys_SJLK.const_data_ptr(),
                            .values_SJLK = values_SJLK.const_data_ptr(),
                            .keyScales_SJL = keyScales_SJL,
                            .valueScales_SJL = valueScales_SJL,
                            .pages_NT = int32s(part.device.pages_NT),
                            .positions_N = int32s(part.device.positions_N),
                            .bundles_B1 = bundles_B1.defined() ? int32s(bundles_B1) : nullptr,
                            .sums_NJsGK = splitSums_.data_ptr<float>(),
                            .stats_NJsG2 = splitStats_.data_ptr<float>(),
                            .out_NHK = part.heads_NHK.data_ptr(),
                            .qStride = spec.qkvRows(),
                            .kvHeads = kvHeads,
                            .group = group,
                            .splits = splits,
                            .pagesPerRow = pagesPerRow,
                            .pagePositions = pagePositions,
                            .scale = 1 / std::sqrt(static_cast<float>(headDim))},
        stream);
    if (splits == 1) return;
    kernels_.launch(bf16 ? KernelId::combine_bf16 : KernelId::combine_fp32,
                    {size(heads), size(part.count())},
                    cuda::CombineArgs{.sums_NJsGK = splitSums_.const_data_ptr<float>(),
                                      .stats_NJsG2 = splitStats_.const_data_ptr<float>(),
                                      .positions_N = int32s(part.device.positions_N),
                                      .out_NHK = part.heads_NHK.data_ptr(),
                                      .kvHeads = kvHeads,
                                      .group = group,
                                      .headDim = headDim,
                                      .splits = splits},
                    stream);
  }

  void activation(DecodePart& part) const override {
    startSwiglu(kernels_, part.gateUp_N2F, part.act_NF);
  }

  void addAdapter(const AdapterGroup& group, const at::Tensor& x_NI, const at::Tensor& y_NO,
                  const at::Tensor& ranks_NR) const override {
    const int64_t rows = x_NI.size(0);
    if (!group.defined() || !fitsLoraKernels(group, rows)) {
      return DecodeOps::addAdapter(group, x_NI, y_NO, ranks_NR);
    }
    const at::Tensor t_NR = ranksOf(group, rows, ranks_NR);
    startLoraRanks(kernels_, group, x_NI, t_NR);
    startLoraAdd(kernels_, group, t_NR, y_NO);
  }

  void activateAdapted(DecodePart& part, const AdapterGroup& gateUp) const override {
    if (!gateUp.defined() || !fitsLoraKernels(gateUp, part.count())) {
      return DecodeOps::activateAdapted(part, gateUp);
    }
    const at::Tensor t_NR = ranksOf(gateUp, part.count(), part.ranks_NR);
    startLoraRanks(kernels_, gateUp, part.normed_ND, t_NR);
    startLoraSwiglu(kernels_, gateUp, t_NR, part.gateUp_N2F, part.act_NF);
  }

  // Products of plain matrices are libtorch's operations even where kernels are emulated on a CPU,
  // which has products of its own: those are what a graph records.
  void multiply(const Matrix& w, const at::Tensor& x_NI, const at::Tensor& y_NO,
                const Into& into) const override {
    if (w.isQuantised()) return DecodeOps::multiply(w, x_NI, y_NO, into);
    libraryProductInto(y_NO, x_NI, w.plain().t(), startFrom(y_NO, into), into.scale);
  }

  void reserve(int64_t rows, int64_t splits) override {
    const ModelSpec& spec = model_.spec;
    const int64_t items = rows * spec.numHeads * splits;
    const auto options = at::device(model_.device).dtype(at::kFloat);
    splitSums_ = at::empty({items * spec.headDim}, options);
    splitStats_ = at::empty({items * 2}, options);
  }

  bool hasReserved(int64_t rows, int64_t splits) const override {
    return rows * model_.spec.numHeads * splits * 2 <= splitStats_.numel();
  }

 private:
  // A prompt's keys or values as the cache holds them, [T, J, K].
  at::Tensor promptIn(const PromptSpan& span, const KvCache& cache, const at::Tensor& elements,
                      const at::Tensor& scales) const {
    const auto prompt = [&](const at::Tensor& all) {
      return all.select(0, span.slot).narrow(1, 0, span.end - span.begin).transpose(0, 1);
    };
    return cache.isQuantized() ? dequantized({prompt(elements), prompt(scales)}, model_.dtype)
                               : prompt(elements);
  }

  const GpuKernels& kernels_;
  at::Tensor splitSums_, splitStats_;  // what the blocks of a row's attention leave
};

}  // namespace

std::string gpuKernelsDoNotFit(const Model& model, KvCacheDtype kvCacheDtype) {
  const ModelSpec& spec = model.spec;
  if (model.dtype != at::kBFloat16 && model.dtype != at::kFloat) {
    return "acoer's CUDA kernels are for bfloat16 and float32";
  }
  if (kvCacheDtype == KvCacheDtype::kInt8) {
    if (model.dtype != at::kBFloat16) {
      return "acoer's CUDA kernels read keys and values in int8 for bfloat16 models only";
    }
    const std::string& fault = model.kernelFaults[KernelFamily::kInt8Cache];
    if (!fault.empty()) return fault;
  }
  if (spec.headDim != 64 && spec.headDim != 96 && spec.headDim != 128) {
    return "acoer's CUDA kernels are for heads of 64, 96 or 128, not " +
           std::to_string(spec.headDim);
  }
  if (spec.numHeads > 8 * spec.numKvHeads) {
    return "acoer's CUDA kernels are for up to 8 query heads per key head";
  }
  if (spec.hiddenSize % 8 != 0 || spec.intermediateSize % 8 != 0) {
    return "acoer's CUDA kernels need a hidden and an intermediate size that are multiples of 8";
  }
  if (spec.vocabSize > cuda::kSamplerMaxVocab) {
    return "acoer's CUDA kernels take up to " + std::to_string(cuda::kSamplerMaxVocab) +
           " tokens of vocabulary";
  }
  return "";
}

std::unique_ptr<DecodeOps> gpuDecodeOps(const Model& model, int64_t positions,
                                        const GpuKernels& kernels) {
  return std::make_unique<GpuDecodeOps>(model, positions, kernels);
}

}  // namespace acoer
