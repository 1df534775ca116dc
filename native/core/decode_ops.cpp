// The decoder's steps between the matrix products, with CPU kernels or as tensor operations.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "decode.h"
#include "decode_attention.h"
#include "decode_kernels.h"
#include "ops.h"

namespace acoer {
namespace {

// The fewest elements that are worth starting another thread for.
constexpr int64_t kGrainElements = int64_t{1} << 15;
// Prompts up to this length are attended row by row over the cache, longer ones by the library's
// blocked kernel. This depends on nothing but the prompt's own length, so that the batch cannot
// change a result.
constexpr int64_t kShortPrompt = 128;
// Vocabulary rows widened to fp32 at a time for the head of a bf16 model: 1 MB per 256 at D = 1024.
constexpr int64_t kHeadChunk = 512;

int64_t grainFor(int64_t elementsPerItem) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(1, elementsPerItem));
}

template <class T>
const T* readPointer(const at::Tensor& t) {
  return static_cast<const T*>(t.const_data_ptr());
}
template <class T>
T* writePointer(const at::Tensor& t) {
  return static_cast<T*>(t.data_ptr());
}

// Calls `visit` with a value of the kernels' type for `dtype`.
template <class Visit>
void withKernelType(at::ScalarType dtype, const Visit& visit) {
  switch (dtype) {
    case at::kFloat:
      return visit(float{});
    case at::kDouble:
      return visit(double{});
    case at::kBFloat16:
      return visit(kernels::Bf16{});
    default:
      fail(ErrorCode::kBadArgument, std::string("decoding on a CPU supports float32, float64 and "
                                                "bfloat16 models, not ") +
                                        c10::toString(dtype));
  }
}

}  // namespace

void Decoder::norm(Part& part, const at::Tensor& weight_D) const {
  const double eps = model_.spec.rmsNormEps;
  if (!cpuKernels_) {
    part.normed_ND.copy_(rmsNorm(part.x_ND, weight_D, eps));
    return;
  }
  const int64_t width = model_.spec.hiddenSize;
  withKernelType(model_.dtype, [&](auto type) {
    using T = decltype(type);
    const T* x = readPointer<T>(part.x_ND);
    const T* w = readPointer<T>(weight_D);
    T* out = writePointer<T>(part.normed_ND);
    const auto kernel = kernels::rowKernels<T>().rmsNorm;
    at::parallel_for(0, part.count(), grainFor(width), [&](int64_t begin, int64_t end) {
      kernel(x + begin * width, w, out + begin * width, end - begin, width, eps);
    });
  });
}

void Decoder::activation(Part& part) const {
  if (!cpuKernels_) {
    part.act_NF.copy_(swiglu(part.gateUp_N2F));
    return;
  }
  const int64_t width = model_.spec.intermediateSize;
  withKernelType(model_.dtype, [&](auto type) {
    using T = decltype(type);
    const T* gateUp = readPointer<T>(part.gateUp_N2F);
    T* out = writePointer<T>(part.act_NF);
    const auto kernel = kernels::rowKernels<T>().swiglu;
    at::parallel_for(0, part.count(), grainFor(width), [&](int64_t begin, int64_t end) {
      kernel(gateUp + 2 * begin * width, out + begin * width, end - begin, width);
    });
  });
}

void Decoder::attention(Part& part, size_t layer, bool writeOnly) const {
  if (cpuKernels_) {
    attentionOnCpu(part, layer, writeOnly);
  } else {
    attentionOnDevice(part, layer, writeOnly);
  }
}

namespace {

struct PromptSpan {
  int64_t begin, end;
};

// Runs of consecutive rows that share a slot, relative to `begin`.
std::vector<PromptSpan> promptSpans(const DecodeRows& rows, int64_t begin, int64_t end) {
  std::vector<PromptSpan> spans;
  for (int64_t n = begin; n < end; ++n) {
    const auto i = static_cast<size_t>(n);
    if (n == begin || rows.slots[i] != rows.slots[i - 1]) spans.push_back({n - begin, n - begin});
    spans.back().end = n + 1 - begin;
  }
  return spans;
}

}  // namespace

void Decoder::attentionOnCpu(Part& part, size_t layer, bool writeOnly) const {
  const ModelSpec& spec = model_.spec;
  const DecodeLayer& w = part.weights->layers[layer];
  withKernelType(model_.dtype, [&](auto type) {
    using T = decltype(type);
    kernels::AttentionArgs<T> args;
    args.qkv_NE = writePointer<T>(part.qkv_NE);
    args.keys_SJLK = writePointer<T>(part.cache->keys(static_cast<int64_t>(layer)));
    args.values_SJLK = writePointer<T>(part.cache->values(static_cast<int64_t>(layer)));
    args.out_NHK = writePointer<T>(part.heads_NHK);
    args.slot_N = part.rows->slots.data() + part.begin;
    args.position_N = part.rows->positions.data() + part.begin;
    args.heads = spec.numHeads;
    args.kvHeads = spec.numKvHeads;
    args.headDim = spec.headDim;
    args.capacity = part.cache->positions();
    args.qNorm_K = readPointer<T>(w.qNorm_K);
    args.kNorm_K = readPointer<T>(w.kNorm_K);
    args.cos_PK = readPointer<kernels::Acc<T>>(rope_.cos_PK);
    args.sin_PK = readPointer<kernels::Acc<T>>(rope_.sin_PK);
    args.eps = spec.rmsNormEps;
    const auto& kernel = kernels::rowKernels<T>();
    at::parallel_for(0, part.count(), grainFor(spec.qkvRows()),
                     [&](int64_t begin, int64_t end) { kernel.writeHeads(args, begin, end); });
    if (writeOnly) return;
    auto attendRows = [&](int64_t begin, int64_t end) {
      const int64_t longest = *std::max_element(args.position_N + begin, args.position_N + end) + 1;
      at::parallel_for(begin * spec.numKvHeads, end * spec.numKvHeads,
                       grainFor(longest * spec.headDim * spec.numHeads / spec.numKvHeads),
                       [&](int64_t from, int64_t to) { kernel.attend(args, from, to); });
    };
    if (!part.prefill) return attendRows(0, part.count());
    const at::Tensor heads = part.qkv_NE.view({part.count(), -1, spec.headDim});
    for (const PromptSpan& span : promptSpans(*part.rows, part.begin, part.end)) {
      if (span.end - span.begin <= kShortPrompt) {
        attendRows(span.begin, span.end);
        continue;
      }
      const at::Tensor prompt = heads.slice(0, span.begin, span.end);
      part.heads_NHK.slice(0, span.begin, span.end)
          .copy_(attendPrompt(prompt.narrow(1, 0, spec.numHeads),
                              prompt.narrow(1, spec.numHeads, spec.numKvHeads),
                              prompt.narrow(1, spec.numHeads + spec.numKvHeads, spec.numKvHeads)));
    }
  });
}

void Decoder::attentionOnDevice(Part& part, size_t layer, bool writeOnly) const {
  const ModelSpec& spec = model_.spec;
  const DecodeLayer& w = part.weights->layers[layer];
  const at::Tensor heads = part.qkv_NE.view({part.count(), -1, spec.headDim});
  auto rotate = [&](const at::Tensor& x, const at::Tensor& weight_K) {
    return applyRope(rmsNorm(x, weight_K, spec.rmsNormEps), part.cos_NK, part.sin_NK);
  };
  const at::Tensor q_NHK = rotate(heads.narrow(1, 0, spec.numHeads), w.qNorm_K);
  const at::Tensor k_NJK = rotate(heads.narrow(1, spec.numHeads, spec.numKvHeads), w.kNorm_K);
  const at::Tensor v_NJK = heads.narrow(1, spec.numHeads + spec.numKvHeads, spec.numKvHeads);
  at::Tensor keys = part.cache->keys(static_cast<int64_t>(layer));
  at::Tensor values = part.cache->values(static_cast<int64_t>(layer));
  const c10::List<std::optional<at::Tensor>> places({std::optional<at::Tensor>(part.slots_N),
                                                     std::nullopt,
                                                     std::optional<at::Tensor>(part.positions_N)});
  at::index_put_(keys, places, k_NJK);
  at::index_put_(values, places, v_NJK);
  if (writeOnly) return;
  if (!part.prefill) {
    part.heads_NHK.copy_(attendCache(q_NHK, keys, values, part.rows->slots.data() + part.begin,
                                     part.rows->positions.data() + part.begin));
    return;
  }
  for (const PromptSpan& span : promptSpans(*part.rows, part.begin, part.end)) {
    auto prompt = [&](const at::Tensor& x) { return x.slice(0, span.begin, span.end); };
    prompt(part.heads_NHK).copy_(attendPrompt(prompt(q_NHK), prompt(k_NJK), prompt(v_NJK)));
  }
}

void Decoder::writeLogits(Part& part) const {
  norm(part, part.weights->finalNorm_D);
  const Linear& head = part.weights->head;
  at::Tensor logits = logits_NV_.narrow(0, part.begin, part.count());
  if (model_.dtype == logits.scalar_type()) {
    applyLinear(head, part.normed_ND, logits, false);
    return;
  }
  // A bf16 product would round the logits in steps of up to 0.125, so they are computed in fp32.
  if (!model_.device.is_cpu()) {
    logits.copy_(at::mm(part.normed_ND, head.wT_IO, at::kFloat));
    return;
  }
  const at::Tensor x = part.normed_ND.to(at::kFloat);
  for (int64_t first = 0; first < head.outputs(); first += kHeadChunk) {
    const int64_t rows = std::min(kHeadChunk, head.outputs() - first);
    at::Tensor columns = logits.narrow(1, first, rows);
    at::mm_out(columns, x, head.w_OI.narrow(0, first, rows).to(at::kFloat).t());
  }
}

}  // namespace acoer
