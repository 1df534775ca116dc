// The products and the attention of small models against formulas in fp64.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "device_models.h"
#include "generate/decode_ops.h"
#include "kernels/cpu/sets.h"
#include "matrix/matrix.h"
#include "matrix/small_products.h"
#include "ops/attention.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

at::Tensor normal(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::dtype(at::kDouble));
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Columns 2 .. 2 + width of a wider matrix, as the parts of q|k|v are.
at::Tensor part(int64_t rows, int64_t width, uint64_t seed, at::ScalarType type) {
  return normal({rows, width + 5}, seed).to(type).narrow(1, 2, width);
}

ACOER_TEST(train_small_products) {
  for (const auto& [type, bound] : {std::pair{at::kFloat, 2e-4}, {at::kDouble, 1e-12}}) {
    for (const auto& [rows, outputs, inputs] :
         {std::array<int64_t, 3>{1, 1, 1}, {5, 17, 3}, {129, 48, 33}, {300, 40, 96}}) {
      const at::Tensor x = part(rows, inputs, 1, type), w = normal({outputs, inputs}, 2).to(type),
                       dy = part(rows, outputs, 3, type);
      ACOER_CHECK(isSmallMatrix(w, x) && hasSmallGradient(dy, x));
      const at::Tensor wideX = x.to(at::kDouble), wideW = w.to(at::kDouble),
                       wideDy = dy.to(at::kDouble);
      const at::Tensor y = part(rows, outputs, 4, type), before = y.to(at::kDouble).clone();
      const Matrix matrix(w);
      matrix.forwardInto(y, x, {.add = true, .scale = 0.5});
      ACOER_CHECK_LE(worst(y, before + 0.5 * wideX.mm(wideW.t())), bound);
      ACOER_CHECK_LE(worst(matrix.forward(x), wideX.mm(wideW.t())), bound);
      ACOER_CHECK_LE(worst(matrix.backward(dy), wideDy.mm(wideW)), bound);
      ACOER_CHECK_LE(worst(weightGradient(dy, x), wideDy.t().mm(wideX)), bound);
    }
  }
}

// Sequences around the size of a block, and a head width that is no multiple of a vector's.
const std::vector<int64_t> kLengths{1, 31, 32, 33, 70, 150};

PackedLayout layoutOf(const std::vector<int64_t>& lengths) {
  PackedSequences batch;
  batch.offsets = {0};
  for (const int64_t length : lengths) {
    batch.ids.insert(batch.ids.end(), static_cast<size_t>(length), 1);
    batch.offsets.push_back(batch.offsets.back() + length);
    batch.promptLengths.push_back(1);
  }
  return makeLayout(batch, at::kCPU);
}

// For each token, sequence by sequence, its row of `layout`.
at::Tensor rowsOfTokens(const PackedLayout& layout) {
  std::vector<int64_t> rows;
  for (const SequenceRows& s : layout.sequences) {
    for (int64_t t = 0; t < s.length; ++t) {
      rows.push_back(t < s.shared ? s.prefix + t : s.own + t - s.shared);
    }
  }
  return at::tensor(rows, at::kLong);
}

// For each row the token it was computed for.
at::Tensor tokensOfRows(const PackedLayout& layout) {
  std::vector<int64_t> tokens;
  int64_t from = 0;
  for (const SequenceRows& s : layout.sequences) {
    for (int64_t t = s.shared; t < s.length; ++t) tokens.push_back(from + t);
    from += s.length;
  }
  return at::tensor(tokens, at::kLong);
}

// Plain causal attention in fp64 over sequences that lie end to end, each by itself.
at::Tensor plainAttention(const at::Tensor& q_SHK, const at::Tensor& k_SJK, const at::Tensor& v_SJK,
                          const PackedLayout& layout) {
  const int64_t repeats = q_SHK.size(1) / k_SJK.size(1);
  std::vector<at::Tensor> outs;
  int64_t from = 0;
  for (const SequenceRows& sequence : layout.sequences) {
    const int64_t length = sequence.length;
    const auto heads = [&](const at::Tensor& x, int64_t times) {
      return x.narrow(0, from, length).repeat_interleave(times, 1).transpose(0, 1);
    };
    const at::Tensor scores = at::matmul(heads(q_SHK, 1), heads(k_SJK, repeats).transpose(1, 2)) /
                              std::sqrt(static_cast<double>(q_SHK.size(2)));
    const at::Tensor hidden = at::ones({length, length}, at::kBool).triu(1);
    const at::Tensor weights =
        at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1);
    outs.push_back(at::matmul(weights, heads(v_SJK, repeats)).transpose(0, 1));
    from += length;
  }
  return at::cat(outs);
}

at::Tensor ofBf16(const at::Tensor& x) { return x.to(at::kBFloat16).to(x.scalar_type()); }

void checkSmallAttention(const PackedLayout& layout) {
  const at::Tensor rows_S = rowsOfTokens(layout), owned_T = tokensOfRows(layout);
  for (const auto& [heads, kvHeads, width] : {std::array<int64_t, 3>{4, 2, 32}, {3, 1, 20}}) {
    const auto leaf = [&](int64_t count, uint64_t seed) {
      return ofBf16(normal({layout.tokens, count, width}, seed)).requires_grad_(true);
    };
    const at::Tensor q = leaf(heads, 1), k = leaf(kvHeads, 2), v = leaf(kvHeads, 3);
    const at::Tensor dOut = ofBf16(normal({layout.tokens, heads, width}, 4));
    const c10::AutoGradMode grad(true);
    const at::Tensor ofTokens = plainAttention(q.index_select(0, rows_S), k.index_select(0, rows_S),
                                               v.index_select(0, rows_S), layout);
    const at::Tensor expected = ofTokens.index_select(0, owned_T);
    expected.backward(dOut);
    const c10::AutoGradMode off(false);
    for (const auto& [type, bound] :
         {std::pair{at::kFloat, 2e-5}, {at::kDouble, 1e-13}, {at::kBFloat16, 0.0}}) {
      const auto isNear = [bound](const at::Tensor& a, const at::Tensor& b) {
        // bf16 is computed in fp32: half a unit in the last of its 8 digits.
        const double rounding = bound == 0 ? b.abs().max().item<double>() / 256 : 0;
        ACOER_CHECK_LE(worst(a, b), bound + rounding);
      };
      AttentionTape tape;
      const at::Tensor got =
          attention(Heads{q.detach(), k.detach(), v.detach()}.to(type), layout, &tape);
      ACOER_CHECK(tape.own.q_THK.defined() && tape.calls.empty());
      isNear(got, expected.detach());
      const Heads d = attentionBackward(tape, dOut.to(type), layout);
      isNear(d.q_THK, q.grad());
      isNear(d.k_TJK, k.grad());
      isNear(d.v_TJK, v.grad());
    }
  }
}

ACOER_TEST(train_small_attention) { checkSmallAttention(layoutOf(kLengths)); }

// Prompts of several lengths around a block's, some of them with one completion only.
ACOER_TEST(train_small_attention_of_shared_prompts) {
  PackedSequences batch =
      randomSequences(smallSpec(), {40, 40, 40, 33, 33, 3, 1, 1}, {30, 0, 70, 9, 31, 5, 2, 40}, 7);
  const auto copyPrompt = [&](size_t from, size_t to) {
    std::copy_n(batch.ids.begin() + batch.offsets[from], batch.promptLengths[from],
                batch.ids.begin() + batch.offsets[to]);
  };
  copyPrompt(0, 1);
  copyPrompt(0, 2);
  copyPrompt(3, 4);
  copyPrompt(6, 7);
  const PackedLayout apart = makeLayout(batch, at::kCPU),
                     layout = makeLayout(batch, at::kCPU, /*sharesPrompts=*/true);
  ACOER_CHECK(layout.tokens == apart.tokens - 39 - 39 - 32);
  const at::Tensor rows_S = rowsOfTokens(layout);
  ACOER_CHECK(at::equal(layout.ids_T.index_select(0, rows_S), apart.ids_T));
  ACOER_CHECK(at::equal(layout.positions_T.index_select(0, rows_S), apart.positions_T));
  ACOER_CHECK(at::equal(layout.completion_N, rows_S.index_select(0, apart.completion_N)));
  ACOER_CHECK(at::equal(layout.targets_N, apart.targets_N));
  checkSmallAttention(layout);
}

// Log-probs, entropies and probabilities of one row of logits.
template <class T>
void checkSoftmax(const kernels::MathKernels<T>& math, int64_t count, double temperature,
                  double bound) {
  const auto type = c10::CppTypeToScalarType<T>::value;
  const at::Tensor logits = (normal({count}, 5) * 6 - 3).to(type);
  const at::Tensor want = at::log_softmax(logits.to(at::kDouble) / temperature, 0);
  const at::Tensor probs = want.exp();
  const double entropy = -(probs * want).sum().item<double>();
  for (const bool narrows : {false, true}) {
    const at::Tensor got = logits.clone(), narrowed = at::zeros({count + 1}, at::kBFloat16);
    auto* to = narrows ? static_cast<kernels::Bf16*>(narrowed.data_ptr()) : nullptr;
    const kernels::LogitSums<T> sums =
        math.softmaxLogits(got.data_ptr<T>(), count, 1 / temperature, to);
    const double logSum = std::log(sums.sum);
    const at::Tensor logprobs = (logits.to(at::kDouble) - sums.max) / temperature - logSum;
    ACOER_CHECK_LE(worst(logprobs, want), bound);
    ACOER_CHECK_LE(std::abs(logSum - sums.weighted / sums.sum - entropy), bound);
    if (narrows) {
      ACOER_CHECK_LE(worst(narrowed.narrow(0, 0, count), probs), probs.max().item<double>() / 256);
      ACOER_CHECK(narrowed[count].item<float>() == 0);
    } else {
      ACOER_CHECK_LE(worst(got, probs), bound);
    }
  }
}

ACOER_TEST(train_softmax_of_logits) {
  for (const kernels::KernelSet* set : kernels::usableSets()) {
    for (const int64_t count : {1, 7, 16, 511, 513, 1024, 5003}) {
      for (const double temperature : {1.0, 0.6}) {
        checkSoftmax<float>(set->mathFloat, count, temperature, 4e-6);
        checkSoftmax<double>(set->mathDouble, count, temperature, 1e-13);
      }
    }
  }
}

// A logit that is not a number makes all of its row's results so: a step is refused for it.
ACOER_TEST(train_softmax_of_nan) {
  for (const kernels::KernelSet* set : kernels::usableSets()) {
    for (const int64_t place : {0, 5, 20, 36}) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> logits(37, 1);
        logits[static_cast<size_t>(place)] = bad;
        const auto sums = set->mathFloat.softmaxLogits(logits.data(), 37, 1, nullptr);
        ACOER_CHECK(!std::isfinite(std::log(sums.sum)));
      }
    }
  }
}

// Long sequences go to the library, with the same result.
ACOER_TEST(train_long_attention_is_the_library_s) {
  const PackedLayout layout = layoutOf({600, 20});
  const at::Tensor q = normal({layout.tokens, 4, 16}, 1), k = normal({layout.tokens, 2, 16}, 2),
                   v = normal({layout.tokens, 2, 16}, 3);
  ACOER_CHECK(!isSmallAttention(at::kCPU, at::kDouble, layout.longest));
  ACOER_CHECK_LE(worst(attention({q, k, v}, layout, nullptr), smallAttention({q, k, v}, layout)),
                 1e-13);
}

// A prompt in bf16, which the library attends where it multiplies by tiles. It rounds the weights.
ACOER_TEST(train_prompt_attention_in_bf16) {
  const PackedLayout layout = layoutOf({300});
  const at::Tensor q = ofBf16(normal({300, 9, 64}, 1)), k = ofBf16(normal({300, 3, 64}, 2)),
                   v = ofBf16(normal({300, 3, 64}, 3));
  const at::Tensor expected = plainAttention(q, k, v, layout).flatten(1);
  ACOER_CHECK_LE(worst(attendPrompt(Heads{q, k, v}.to(at::kBFloat16)), expected),
                 expected.abs().max().item<double>() / 128);
}

}  // namespace
}  // namespace acoer::check
