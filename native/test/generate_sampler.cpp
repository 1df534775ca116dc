// The sampler on its own: noise, distribution, filters, reported numbers.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "generate/sampler.h"
#include "generate_support.h"

namespace acoer::check {
namespace {

at::Tensor randomLogits(int64_t rows, int64_t vocab, uint64_t seed, double scale = 2) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn({rows, vocab}, generator, at::dtype(at::kFloat)) * scale;
}

// Hugging Face's logits processors, in their order, on one row in fp64.
at::Tensor referenceProbabilities(at::Tensor logits, const SamplingOptions& o,
                                  const std::unordered_set<int32_t>& seen) {
  logits = logits.to(at::kDouble).clone();
  for (int32_t id : seen) {
    const double x = logits[id].item<double>();
    logits[id] = x < 0 ? x * o.repetitionPenalty : x / o.repetitionPenalty;
  }
  at::Tensor scores = logits / o.temperature;
  const double off = -std::numeric_limits<double>::infinity();
  if (o.topK > 0) {
    const auto kth = std::get<0>(at::topk(scores, std::min(o.topK, scores.size(0))))[-1];
    scores = scores.masked_fill(scores < kth, off);
  }
  if (o.topP < 1) {
    const auto [sorted, order] = at::sort(scores);
    at::Tensor remove = at::cumsum(at::softmax(sorted, 0), 0) <= 1 - o.topP;
    remove[-1] = false;
    scores = scores.masked_fill(at::zeros_like(remove).scatter(0, order, remove), off);
  }
  if (o.minP > 0) {
    const at::Tensor p = at::softmax(scores, 0);
    scores = scores.masked_fill(p < o.minP * p.max(), off);
  }
  return at::softmax(scores, 0);
}

struct Case {
  const char* name;
  SamplingOptions options;
  bool seen = false;
};

std::vector<Case> cases() {
  std::vector<Case> all(7);
  all[0].name = "plain";
  all[1] = {"temperature", {.temperature = 0.6}};
  all[2] = {"topK", {.topK = 7}};
  all[3] = {"topP", {.temperature = 1.3, .topP = 0.8}};
  all[4] = {"minP", {.minP = 0.1}};
  all[5] = {"penalty", {.repetitionPenalty = 1.4}, true};
  all[6] = {"all",
            {.temperature = 0.9, .topK = 20, .topP = 0.9, .minP = 0.02, .repetitionPenalty = 0.8},
            true};
  return all;
}

double chiSquareP(const std::vector<int64_t>& counts, const at::Tensor& probabilities,
                  int64_t draws) {
  double value = 0, degrees = -1, pooledExpected = 0, pooledCount = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected =
        probabilities[static_cast<int64_t>(i)].item<double>() * static_cast<double>(draws);
    const auto count = static_cast<double>(counts[i]);
    if (expected == 0) {
      ACOER_CHECK(counts[i] == 0);  // a filtered token must never be drawn
    } else if (expected < 5) {
      pooledExpected += expected;
      pooledCount += count;
    } else {
      value += (count - expected) * (count - expected) / expected;
      degrees += 1;
    }
  }
  if (pooledExpected >= 1) {
    value += (pooledCount - pooledExpected) * (pooledCount - pooledExpected) / pooledExpected;
    degrees += 1;
  }
  return chiSquareTail(value, degrees);
}

std::vector<DrawRow> manyRows(const SamplingOptions& options,
                              const std::unordered_set<int32_t>* seen, int64_t draws) {
  std::vector<DrawRow> rows(static_cast<size_t>(draws));
  for (size_t n = 0; n < rows.size(); ++n) {
    rows[n].options = &options;
    rows[n].uniform = samplerUniform(7, n / 10, n % 10);
    rows[n].seen = seen;
  }
  return rows;
}

// Random123's known answers for philox4x32 with ten rounds.
ACOER_TEST(generate_philox_known_answers) {
  const PhiloxBlock zeros{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const PhiloxBlock ones{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const PhiloxBlock pi{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  ACOER_CHECK(philox(0, 0, 0) == zeros);
  ACOER_CHECK(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) == ones);
  ACOER_CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) == pi);
}

ACOER_TEST(generate_sampler_chi_square) {
  const int64_t draws = 40000;
  const std::unordered_set<int32_t> seen{0, 3, 5, 11, 30, 39};
  const at::Tensor logits = randomLogits(1, 40, 5);
  for (const Case& c : cases()) {
    const auto rows = manyRows(c.options, c.seen ? &seen : nullptr, draws);
    const auto expected =
        referenceProbabilities(logits[0], c.options, c.seen ? seen : std::unordered_set<int32_t>{});
    for (bool tensorOps : {false, true}) {
      std::vector<int64_t> counts(40, 0);
      const auto drawn = tensorOps ? drawTokensByTensorOps(logits, rows) : drawTokens(logits, rows);
      for (const Draw& draw : drawn) counts[static_cast<size_t>(draw.id)] += 1;
      const double p = chiSquareP(counts, expected, draws);
      if (!(p > 1e-3)) fail(ErrorCode::kInternal, std::string(c.name) + ": p " + std::to_string(p));
    }
  }
}

// Both samplers cut the same distribution at the same uniforms, so they draw the same tokens. The
// vocabulary has many blocks and a remainder.
ACOER_TEST(generate_sampler_paths_agree) {
  const int64_t vocab = 5003;
  const std::unordered_set<int32_t> seen{1, 700, 4999};
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor logits = randomLogits(4, vocab, 9, 3).to(dtype);
    for (const Case& c : cases()) {
      auto rows = manyRows(c.options, c.seen ? &seen : nullptr, 200);
      for (size_t n = 0; n < rows.size(); ++n) rows[n].logitsRow = static_cast<int64_t>(n % 4);
      const auto a = drawTokens(logits, rows), b = drawTokensByTensorOps(logits, rows);
      for (size_t n = 0; n < rows.size(); ++n) {
        ACOER_CHECK(a[n].id == b[n].id);
        ACOER_CHECK_LE(std::abs(a[n].logprob - b[n].logprob), 1e-10);
        ACOER_CHECK_LE(std::abs(a[n].entropy - b[n].entropy), 1e-10);
      }
    }
  }
}

// log_softmax(logits / temperature), regardless of filters and penalty.
ACOER_TEST(generate_sampler_logprob_is_unfiltered) {
  const at::Tensor logits = randomLogits(1, 1000, 11);
  const std::unordered_set<int32_t> seen{2, 4};
  for (double temperature : {0.0, 0.7, 1.0}) {
    SamplingOptions options{
        .temperature = temperature, .topK = 5, .topP = 0.9, .minP = 0.05, .repetitionPenalty = 2};
    const auto draws = drawTokens(logits, manyRows(options, &seen, 50));
    const at::Tensor logp =
        at::log_softmax(logits[0].to(at::kDouble) / (temperature == 0 ? 1 : temperature), 0);
    const double entropy = -(logp * logp.exp()).sum().item<double>();
    for (const Draw& draw : draws) {
      ACOER_CHECK_LE(std::abs(draw.logprob - logp[draw.id].item<double>()), 1e-12);
      ACOER_CHECK_LE(std::abs(draw.entropy - entropy), 1e-12);
    }
  }
}

ACOER_TEST(generate_sampler_extremes) {
  const SamplingOptions plain, greedy{.temperature = 0};
  at::Tensor logits = at::full({1, 600}, -80.0, at::kFloat);
  logits[0][599] = 30;
  for (double u : {0x1p-53, 0.5, std::nextafter(1.0, 0.0)}) {
    for (const SamplingOptions* options : {&plain, &greedy}) {
      const DrawRow row{0, options, u, nullptr};
      ACOER_CHECK(drawTokens(logits, {row})[0].id == 599);
      ACOER_CHECK(drawTokensByTensorOps(logits, {row})[0].id == 599);
    }
  }
  for (double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    at::Tensor broken = logits.clone();
    broken[0][17] = bad;
    for (const SamplingOptions* options : {&plain, &greedy}) {
      ACOER_CHECK(!drawTokens(broken, {{0, options, 0.5, nullptr}})[0].finite);
      ACOER_CHECK(!drawTokensByTensorOps(broken, {{0, options, 0.5, nullptr}})[0].finite);
    }
  }
}

// Rounding may leave the target beyond the sum of all terms. The last token with any weight is
// drawn then, not one whose weight is zero.
ACOER_TEST(generate_sampler_target_beyond_the_last_term) {
  const SamplingOptions plain;
  at::Tensor logits = randomLogits(64, 600, 13);
  logits.slice(1, 300).fill_(-1e4);
  logits.select(1, 299).fill_(5);
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    for (int64_t n = 0; n < logits.size(0); ++n) {
      const DrawRow row{n, &plain, std::nextafter(1.0, 0.0), nullptr};
      ACOER_CHECK(drawTokens(logits.to(dtype), {row})[0].id == 299);
    }
  }
}

}  // namespace
}  // namespace acoer::check
