// The sampler's kernels against the semantics of native/core/generate/sampler.cpp, computed here in
// float64.
#include "kernels/sampler.cuh"

#include <algorithm>
#include <optional>

#include "../../core/base/philox.h"
#include "check.h"

using namespace acoer::cuda;

namespace {

// How near to a border between two tokens (or to one that top-p draws) the other side may be taken:
// weights are rounded to 2^-24 of themselves at most, see sampler.cuh.
constexpr double kBorder = 0x1p-24;
// fp32 of numbers up to 30 or so, and sums of fp32 products in the entropy.
constexpr double kReported = 4e-6;

struct Options {
  double temperature = 1;
  int64_t topK = 0;
  double topP = 1, minP = 0, penalty = 1;
};

struct Row {
  Options options = {};
  std::vector<bool> seen = {};  // of ids; empty: none
  uint64_t seed = 1, sample = 0, position = 0;
  int32_t logitsRow = 0;
  double uniform() const { return acoer::samplerUniform(seed, sample, position); }
};

struct Logits {
  int rows, vocab, stride;
  std::vector<float> values;  // NaN between the rows
  const float* row(int32_t n) const { return values.data() + int64_t{n} * stride; }
};

Logits makeLogits(int rows, int vocab, const std::function<double()>& value) {
  Logits logits{rows, vocab, vocab + 700, {}};
  logits.values =
      emu::unwritten<float>(static_cast<size_t>(rows) * static_cast<size_t>(logits.stride));
  for (int n = 0; n < rows; ++n) {
    float* row = logits.values.data() + int64_t{n} * logits.stride;
    for (int v = 0; v < vocab; ++v) row[v] = static_cast<float>(value());
  }
  return logits;
}

struct Result {
  std::vector<SampledToken> tokens;
  std::vector<uint32_t> seen;
};

Result sample(const Logits& logits, const std::vector<Row>& rows) {
  const int words = seenWords(logits.vocab);
  Result result{std::vector<SampledToken>(rows.size(), {-1, NAN, NAN, -1}),
                std::vector<uint32_t>(rows.size() * static_cast<size_t>(words))};
  std::vector<SamplerRow> given;
  for (const Row& row : rows) {
    const Options& o = row.options;
    SamplerRow one = samplerRow(o.temperature, o.topK, o.topP, o.minP, o.penalty);
    one.seed = row.seed, one.sample = row.sample, one.position = row.position;
    one.logitsRow = row.logitsRow;
    const size_t first = given.size() * static_cast<size_t>(words);
    if (o.penalty != 1) one.seenRow = static_cast<int32_t>(given.size());
    for (size_t id = 0; id < row.seen.size(); ++id) {
      result.seen[first + id / 32] |= uint32_t{row.seen[id]} << id % 32;
    }
    given.push_back(one);
  }
  const auto N = static_cast<unsigned>(rows.size());
  std::vector<LogitBlock> blocks(N * static_cast<size_t>(logitBlocks(logits.vocab)));
  std::memset(blocks.data(), 0xFF, blocks.size() * sizeof(LogitBlock));
  const SamplerArgs args{.logits_MV = logits.values.data(),
                         .rows_N = given.data(),
                         .seen_SW = result.seen.data(),
                         .blocks_NB = blocks.data(),
                         .tokens_N = result.tokens.data(),
                         .stride = logits.stride,
                         .vocab = logits.vocab};
  emu::launch(acoer_sampler_blocks, dim3(N, static_cast<unsigned>(samplerGrid(logits.vocab))),
              dim3(kSamplerBlocksThreads), 0, args);
  emu::launch(acoer_sampler_draw, dim3(N), dim3(kSamplerDrawThreads), 0, args);
  return result;
}

// What the filters leave, in float64.
struct Distribution {
  std::vector<double> weights;  // by id, 0 where a filter took it
  double total = 0;
  bool clear = true;  // top-p's share is not on the border between two tokens
};

Distribution filtered(const float* logits, int vocab, const Row& row) {
  const Options& o = row.options;
  std::vector<double> z(static_cast<size_t>(vocab));
  for (size_t id = 0; id < z.size(); ++id) {
    float logit = logits[id];
    if (o.penalty != 1 && id < row.seen.size() && row.seen[id]) {
      logit = static_cast<float>(logit < 0 ? logit * o.penalty : logit / o.penalty);
    }
    z[id] = logit;
  }
  const double largest = *std::max_element(z.begin(), z.end());
  for (double& x : z) x = (x - largest) / o.temperature;
  std::vector<size_t> order(z.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return z[a] > z[b]; });
  size_t count = order.size();
  if (o.topK > 0 && o.topK < vocab) {
    const double kth = z[order[static_cast<size_t>(o.topK - 1)]];
    while (count > 0 && z[order[count - 1]] < kth) --count;
  }
  Distribution left;
  left.weights.resize(z.size());
  if (o.topP < 1) {
    double total = 0, above = 0;
    for (size_t i = 0; i < count; ++i) total += std::exp(z[order[i]]);
    size_t kept = 0;
    while (kept < count && above < o.topP * total) above += std::exp(z[order[kept++]]);
    const double last = above - std::exp(z[order[kept - 1]]);
    // Equal logits have equal weights on both sides, and nothing is rounded.
    const bool equal = z[order[0]] == z[order[count - 1]];
    for (const double border : {last, above}) {
      left.clear &= equal || std::abs(border / total - o.topP) > kBorder;
    }
    count = kept;
  }
  for (size_t i = 0; i < count; ++i) {
    if (o.minP > 0 && z[order[i]] < std::log(o.minP)) break;
    left.total += left.weights[order[i]] = std::exp(z[order[i]]);
  }
  return left;
}

void expectToken(const SampledToken& token, const float* logits, int vocab, const Row& row,
                 const std::string& what) {
  if (token.finite != 1 || token.id < 0 || token.id >= vocab) emu::fail(what + ": no token");
  const auto id = static_cast<size_t>(token.id);
  const bool greedy = row.options.temperature == 0;
  Row warm = row;
  if (greedy) warm.options = {.penalty = row.options.penalty};
  const Distribution left = filtered(logits, vocab, warm);
  if (greedy) {
    const auto top = std::max_element(left.weights.begin(), left.weights.end());
    if (id != static_cast<size_t>(top - left.weights.begin()))
      emu::fail(what + ": not the largest");
  } else if (left.clear) {
    double before = 0;
    for (size_t i = 0; i < id; ++i) before += left.weights[i];
    const double from = before / left.total, to = (before + left.weights[id]) / left.total;
    const double u = row.uniform();
    if (left.weights[id] == 0) emu::fail(what + ": drew a token that a filter took");
    if (u < from - kBorder || u >= to + kBorder) {
      emu::fail(what + ": drew " + std::to_string(id) + " of [" + std::to_string(from) + ", " +
                std::to_string(to) + ") at " + std::to_string(u));
    }
  }
  Row plain = warm;
  plain.options = {.temperature = warm.options.temperature};
  const Distribution all = filtered(logits, vocab, plain);
  double entropy = 0;
  const double largest = *std::max_element(logits, logits + vocab);
  for (int v = 0; v < vocab; ++v) {
    const double p = all.weights[static_cast<size_t>(v)] / all.total;
    if (p > 0) entropy -= p * std::log(p);
  }
  const double logprob = (logits[id] - largest) / plain.options.temperature - std::log(all.total);
  emu::expectNear(token.logprob, logprob, kReported * std::max(1.0, std::abs(logprob) / 8),
                  what + ": log-prob");
  emu::expectNear(token.entropy, entropy, kReported, what + ": entropy");
}

std::vector<Options> allOptions() {
  return {{},
          {.temperature = 0.6},
          {.temperature = 0},
          {.topK = 1},
          {.topK = 7},
          {.topK = 1000000},
          {.temperature = 1.3, .topP = 0.8},
          {.topP = 0.05},
          {.topP = 1e-9},
          {.topP = 0.999},
          {.minP = 0.1},
          {.temperature = 0.5, .minP = 1},
          {.penalty = 1.4},
          {.temperature = 0, .penalty = 1.3},
          {.temperature = 0.6, .topK = 20, .topP = 0.95},
          {.topK = 40, .minP = 0.02},
          {.topP = 0.9, .minP = 0.3},
          {.temperature = 0.9, .topK = 20, .topP = 0.9, .minP = 0.02, .penalty = 0.8}};
}

// One row of each kind of options, each with logits of its own.
void checkVocab(int vocab, const std::string& kind,
                const std::function<double(emu::Data&)>& value) {
  emu::Data data(static_cast<uint64_t>(vocab) * 31 + kind.size());
  std::vector<Row> rows;
  for (const Options& options : allOptions()) {
    Row row{.options = options, .seed = static_cast<uint64_t>(vocab), .sample = rows.size()};
    row.logitsRow = static_cast<int32_t>(rows.size());
    row.seen.resize(static_cast<size_t>(vocab));
    for (size_t id = 0; id < row.seen.size(); ++id) row.seen[id] = data.uniform() < 0.3;
    rows.push_back(row);
  }
  const Logits logits =
      makeLogits(static_cast<int>(rows.size()), vocab, [&] { return value(data); });
  const Result result = sample(logits, rows);
  for (size_t n = 0; n < rows.size(); ++n) {
    const std::string what =
        kind + ", vocabulary " + std::to_string(vocab) + ", options " + std::to_string(n);
    expectToken(result.tokens[n], logits.row(rows[n].logitsRow), vocab, rows[n], what);
  }
}

}  // namespace

EMU_TEST(sampler_philox) {
  emu::Data data(7);
  for (int i = 0; i < 2000; ++i) {
    const auto word = [&] { return static_cast<uint64_t>(data.uniform() * 0x1p53) * 2049; };
    const uint64_t key = word(), low = word(), high = word();
    const acoer::PhiloxBlock expected = acoer::philox(key, low, high);
    const PhiloxWords found = philox(key, low, high);
    for (size_t w = 0; w < 4; ++w) {
      if (found.word[w] != expected[w]) emu::fail("philox differs");
    }
    const double u = static_cast<double>(samplerMantissa(key, high, low)) * 0x1p-53;
    if (u != acoer::samplerUniform(key, high, low)) emu::fail("the sampler's number differs");
  }
}

EMU_TEST(sampler_options) {
  emu::forEachSchedule([] {
    for (const int vocab : {1, 2, 33, 511, 512, 513, 1300, 4097}) {
      checkVocab(vocab, "normal", [](emu::Data& data) { return 3 * data.normal(); });
    }
  });
}

EMU_TEST(sampler_ties) {
  emu::forEachSchedule([] {
    for (const int vocab : {40, 1100}) {
      checkVocab(vocab, "equal", [](emu::Data&) { return 0.0; });
      checkVocab(vocab, "signed zeros",
                 [](emu::Data& d) { return d.uniform() < 0.5 ? -0.0 : 0.0; });
      checkVocab(vocab, "steps", [](emu::Data& d) { return std::round(1.5 * d.normal()) * 0.5; });
    }
  });
}

EMU_TEST(sampler_ranges) {
  const auto peak = [](emu::Data& d) { return d.uniform() < 0.001 ? 40 : d.normal(); };
  const auto wide = [](emu::Data& d) { return 60 * d.normal(); };
  const auto low = [](emu::Data& d) { return d.normal() - 900; };
  const auto falling = [last = 0.0](emu::Data&) mutable { return last -= 0.01; };
  for (const int vocab : {700, 3000}) {
    checkVocab(vocab, "peak", peak);
    checkVocab(vocab, "wide", wide);
    checkVocab(vocab, "low", low);
    checkVocab(vocab, "falling", falling);
  }
}

EMU_TEST(sampler_whole_vocabulary) {
  emu::Data data(5);
  const Logits logits = makeLogits(1, 151936, [&] { return 2.5 * data.normal(); });
  const std::vector<Row> rows{
      {.options = {}},
      {.options = {.temperature = 0.6, .topK = 20, .topP = 0.95}},
      {.options = {.temperature = 0}},
      {.options = {.topP = 0.95}, .position = 3},
  };
  const Result result = sample(logits, rows);
  for (size_t n = 0; n < rows.size(); ++n) {
    expectToken(result.tokens[n], logits.row(0), logits.vocab, rows[n], "row " + std::to_string(n));
  }
}

// Numbers that lie just so far from a border that the token is certain.
EMU_TEST(sampler_near_borders) {
  emu::Data data(11);
  const Logits logits = makeLogits(1, 600, [&] { return 2 * data.normal(); });
  for (const Options& options : {Options{.temperature = 0.7}, Options{.topK = 100, .topP = 0.97}}) {
    Row row{.options = options};
    const Distribution left = filtered(logits.row(0), logits.vocab, row);
    std::vector<double> borders;
    double sum = 0;
    for (const double w : left.weights) borders.push_back((sum += w) / left.total);
    std::vector<Row> rows;
    for (row.position = 0; row.position < 1000000 && rows.size() < 50; ++row.position) {
      const double u = row.uniform();
      const auto next = std::upper_bound(borders.begin(), borders.end(), u);
      double distance = next == borders.end() ? 1 : *next - u;
      if (next != borders.begin()) distance = std::min(distance, u - *(next - 1));
      if (distance > kBorder && distance < 8 * kBorder) rows.push_back(row);
    }
    if (rows.size() < 30) emu::fail("too few numbers near a border");
    const Result result = sample(logits, rows);
    for (size_t n = 0; n < rows.size(); ++n) {
      const auto expected =
          std::upper_bound(borders.begin(), borders.end(), rows[n].uniform()) - borders.begin();
      if (result.tokens[n].id != expected) emu::fail("another token than the CPU's");
    }
  }
}

EMU_TEST(sampler_not_finite) {
  emu::Data data(3);
  Logits logits = makeLogits(4, 1300, [&] { return data.normal(); });
  logits.values[5] = NAN;
  logits.values[static_cast<size_t>(logits.stride) + 1299] = INFINITY;
  logits.values[2 * static_cast<size_t>(logits.stride) + 700] = -INFINITY;
  std::vector<Row> rows;
  for (const Options& options : allOptions()) {
    for (int32_t n = 0; n < 4; ++n) rows.push_back({.options = options, .logitsRow = n});
  }
  const Result result = sample(logits, rows);
  for (size_t n = 0; n < rows.size(); ++n) {
    if (result.tokens[n].finite != (rows[n].logitsRow == 3)) emu::fail("finite is wrong");
  }
}

EMU_TEST(sampler_marks_its_token) {
  emu::Data data(9);
  const Logits logits = makeLogits(1, 1000, [&] { return data.normal(); });
  std::vector<Row> rows;
  for (uint64_t n = 0; n < 8; ++n) {
    rows.push_back({.options = {.penalty = n % 2 == 0 ? 1.2 : 1}, .sample = n});
    rows.back().seen = std::vector<bool>(1000, false);
    rows.back().seen[40 + n] = true;
  }
  const Result result = sample(logits, rows);
  for (size_t n = 0; n < rows.size(); ++n) {
    for (size_t id = 0; id < 1000; ++id) {
      const bool marked = result.seen[n * 32 + id / 32] >> id % 32 & 1;
      const bool drawn = n % 2 == 0 && static_cast<size_t>(result.tokens[n].id) == id;
      if (marked != (drawn || id == 40 + n)) emu::fail("the ids seen are wrong");
    }
  }
}

EMU_TEST(sampler_leaves_rows_out) {
  emu::Data data(9);
  const Logits logits = makeLogits(1, 600, [&] { return data.normal(); });
  const Result result = sample(logits, {{.logitsRow = -1}, {}, {.logitsRow = -1}});
  if (result.tokens[0].id != -1 || result.tokens[2].id != -1) emu::fail("wrote a row left out");
  expectToken(result.tokens[1], logits.row(0), 600, {}, "the row between");
}

// A row's bits do not depend on its neighbours nor on the order of threads.
EMU_TEST(sampler_any_batch) {
  emu::Data data(13);
  const Logits logits = makeLogits(3, 2600, [&] { return 3 * data.normal(); });
  std::vector<Row> rows;
  for (const Options& options : allOptions()) {
    rows.push_back({.options = options, .logitsRow = static_cast<int32_t>(rows.size() % 3)});
    rows.back().seen = std::vector<bool>(2600, rows.size() % 2 == 0);
  }
  std::optional<Result> first;
  emu::forEachSchedule([&] {
    const Result together = sample(logits, rows);
    if (!first) first = together;
    for (size_t n = 0; n < rows.size(); ++n) {
      const SampledToken alone = sample(logits, {rows[n]}).tokens[0];
      if (!emu::sameBits(alone, together.tokens[n]) || !emu::sameBits(alone, first->tokens[n])) {
        emu::fail("options " + std::to_string(n) + " differ with the batch");
      }
    }
  });
}
