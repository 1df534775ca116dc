// From logits to tokens to the next step's input: the kernels against the CPU's sampler and a loop.
#include "generate/sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "selfcheck/figures.h"

namespace acoer {
namespace {

// How far from a number, or a share of top-p, the kernels may take another one: they promise 2^-24.
constexpr double kNear = 0x1p-22;
constexpr uint64_t kSeed = 77;
constexpr double kGap = 1e-5;  // of log-probs and entropies, in nats

struct Row {
  SamplingOptions options;
  std::unordered_set<int32_t> seen{};
};

std::vector<Row> sampledRows(int64_t vocab) {
  std::unordered_set<int32_t> seen;
  for (int64_t id = 0; id < vocab; id += 3) seen.insert(static_cast<int32_t>(id));
  return {{{.temperature = 1}},
          {{.temperature = 0.7, .topP = 0.5}},
          {{.temperature = 0.9, .topK = 20, .repetitionPenalty = 1.2}, seen},
          {{.temperature = 0}},
          {{.temperature = 1.1, .minP = 0.05}}};
}

double uniformOf(size_t n) { return samplerUniform(kSeed, n, 0); }

std::vector<cuda::SamplerRow> samplerRows(const std::vector<Row>& rows) {
  std::vector<cuda::SamplerRow> given;
  for (size_t n = 0; n < rows.size(); ++n) {
    const SamplingOptions& o = rows[n].options;
    given.push_back(cuda::samplerRow(o.temperature, o.topK, o.topP, o.minP, o.repetitionPenalty));
    given.back().seed = kSeed;
    given.back().sample = n;
    given.back().logitsRow = static_cast<int32_t>(n);
    if (!rows[n].seen.empty()) given.back().seenRow = static_cast<int32_t>(n);
  }
  return given;
}

std::vector<uint32_t> seenBits(const std::vector<Row>& rows, int64_t vocab) {
  const auto words = static_cast<size_t>(cuda::seenWords(vocab));
  std::vector<uint32_t> bits(rows.size() * words, 0);
  for (size_t n = 0; n < rows.size(); ++n) {
    for (const int32_t id : rows[n].seen)
      bits[n * words + static_cast<size_t>(id) / 32] |= 1U << id % 32;
  }
  return bits;
}

// The CPU's draws for the row's number and for those on both sides of it.
std::vector<Draw> nearbyDraws(const at::Tensor& logits_NV, const Row& row, size_t n) {
  std::vector<SamplingOptions> options;
  std::vector<DrawRow> rows;
  for (const double share : {0.0, -kNear, kNear}) {
    options.push_back(row.options);
    if (row.options.topP < 1) options.back().topP += share;
  }
  for (const SamplingOptions& o : options) {
    for (const double step : {0.0, -kNear, kNear}) {
      const double uniform = std::clamp(uniformOf(n) + step, 0x1p-53, 1 - 0x1p-53);
      rows.push_back(
          {static_cast<int64_t>(n), &o, uniform, row.seen.empty() ? nullptr : &row.seen});
    }
  }
  return drawTokens(logits_NV, rows);
}

void checkTokens(Figures& figures, const at::Tensor& logits_NV, const std::vector<Row>& rows,
                 const std::vector<cuda::SampledToken>& tokens) {
  double gap = 0;
  for (size_t n = 0; n < rows.size(); ++n) {
    const std::vector<Draw> draws = nearbyDraws(logits_NV, rows[n], n);
    const auto same = std::find_if(draws.begin(), draws.end(),
                                   [&](const Draw& draw) { return draw.id == tokens[n].id; });
    if (same == draws.end() || tokens[n].finite != 1) {
      return figures.addFault("draws other tokens than the CPU's sampler");
    }
    for (const double off : {std::abs(tokens[n].logprob - same->logprob),
                             std::abs(tokens[n].entropy - same->entropy)}) {
      if (!(off <= gap)) gap = off;  // NaN, too
    }
  }
  figures.expect(gap, kGap);
}

void checkDraws(Figures& figures) {
  figures.begin("sampler");
  const int64_t V = figures.spec().vocabSize;
  const std::vector<Row> rows = sampledRows(V);
  const auto N = static_cast<uint32_t>(rows.size());
  at::Tensor logits_NV = figures.normalIn(at::kFloat, {N, V}, 0, 3);
  for (const int64_t n : {1, 3}) logits_NV[n].clamp_max_(2);  // a border of top-p among equals
  const auto words = static_cast<size_t>(cuda::seenWords(V));
  std::vector<uint32_t> seen = seenBits(rows, V);
  const Guarded given = guarded(samplerRows(rows), figures.device()),
                seenMemory = guarded(seen, figures.device()),
                blocks = guarded(
                    std::vector<cuda::LogitBlock>(N * static_cast<size_t>(cuda::logitBlocks(V))),
                    figures.device()),
                tokens = guarded(std::vector<cuda::SampledToken>(N), figures.device());
  const cuda::SamplerArgs args{.logits_MV = logits_NV.const_data_ptr<float>(),
                               .rows_N = pointer<cuda::SamplerRow>(given),
                               .seen_SW = pointer<uint32_t>(seenMemory),
                               .blocks_NB = pointer<cuda::LogitBlock>(blocks),
                               .tokens_N = pointer<cuda::SampledToken>(tokens),
                               .stride = V,
                               .vocab = static_cast<int32_t>(V)};
  void* stream = currentGpuStream(figures.device());
  figures.kernels().launch(cuda::KernelId::sampler_blocks,
                           {N, static_cast<uint32_t>(cuda::samplerGrid(V))}, args, stream);
  figures.kernels().launch(cuda::KernelId::sampler_draw, {N}, args, stream);
  const auto drawn = valuesOf<cuda::SampledToken>(tokens);
  for (const Guarded* memory : {&seenMemory, &blocks, &tokens}) figures.expectUntouched(*memory);
  checkTokens(figures, logits_NV.cpu(), rows, drawn);
  for (size_t n = 0; n < rows.size(); ++n) {
    const auto id = static_cast<size_t>(std::max(0, drawn[n].id));
    if (!rows[n].seen.empty()) seen[n * words + id / 32] |= 1U << id % 32;
  }
  if (valuesOf<uint32_t>(seenMemory) != seen) figures.addFault("marks other tokens than it draws");
}

// More rows than threads: some idle, some that end by a stop id, their length or their logits.
struct Sequences {
  static constexpr int32_t kRows = 300, kCapacity = 8, kPlace = kCapacity - 1;
  std::vector<cuda::SampledToken> tokens, history;
  std::vector<int32_t> place{kPlace}, ids, positions, stops{3, 5};
  std::vector<cuda::SequenceState> states;
  std::vector<cuda::SamplerRow> rows;

  Sequences() : history(size_t{kRows} * kCapacity), states(kRows), rows(kRows) {
    for (int32_t n = 0; n < kRows; ++n) {
      tokens.push_back({n % 7, -0.5F, 1, n % 11 != 10});
      ids.push_back(100 + n);
      positions.push_back(n % 5 == 4 ? -1 : n);
      states[static_cast<size_t>(n)] = {1 + n % 3, n % 2, 2};
      rows[static_cast<size_t>(n)].position = static_cast<uint64_t>(n);
      rows[static_cast<size_t>(n)].logitsRow = n;
    }
  }
  void advance() {
    for (size_t n = 0; n < tokens.size(); ++n) {
      if (positions[n] < 0) continue;
      history[size_t{kPlace} * kRows + n] = tokens[n];
      cuda::SequenceState& state = states[n];
      const bool stopped = std::find(stops.begin() + state.stopBegin, stops.begin() + state.stopEnd,
                                     tokens[n].id) != stops.begin() + state.stopEnd;
      const bool ends = --state.tokensLeft <= 0 || stopped || tokens[n].finite == 0;
      ids[n] = tokens[n].id;
      positions[n] = ends ? -1 : positions[n] + 1;
      if (ends) rows[n].logitsRow = -1;
      rows[n].position += 1;
    }
    place[0] = 0;
  }
};

template <class T>
bool sameBytes(const Guarded& memory, const std::vector<T>& want) {
  const std::vector<T> found = valuesOf<T>(memory);
  return std::memcmp(found.data(), want.data(), want.size() * sizeof(T)) == 0;
}

void checkAdvance(Figures& figures) {
  figures.begin("advance");
  Sequences all;
  const at::Device device = figures.device();
  const Guarded tokens = guarded(all.tokens, device), history = guarded(all.history, device),
                place = guarded(all.place, device), states = guarded(all.states, device),
                rows = guarded(all.rows, device), ids = guarded(all.ids, device),
                positions = guarded(all.positions, device), stops = guarded(all.stops, device);
  figures.kernels().launch(cuda::KernelId::advance, {},
                           cuda::AdvanceArgs{.tokens_N = pointer<cuda::SampledToken>(tokens),
                                             .history_CN = pointer<cuda::SampledToken>(history),
                                             .place = pointer<int32_t>(place),
                                             .sequences_N = pointer<cuda::SequenceState>(states),
                                             .rows_N = pointer<cuda::SamplerRow>(rows),
                                             .ids_N = pointer<int32_t>(ids),
                                             .positions_N = pointer<int32_t>(positions),
                                             .stopIds = pointer<int32_t>(stops),
                                             .rows = Sequences::kRows,
                                             .capacity = Sequences::kCapacity},
                           currentGpuStream(device));
  all.advance();
  const bool same = sameBytes(history, all.history) && sameBytes(place, all.place) &&
                    sameBytes(states, all.states) && sameBytes(rows, all.rows) &&
                    sameBytes(ids, all.ids) && sameBytes(positions, all.positions);
  figures.expect(same ? 0 : 1, 0);
  for (const Guarded* memory : {&history, &place, &states, &rows, &ids, &positions}) {
    figures.expectUntouched(*memory);
  }
}

}  // namespace

void checkSampler(Figures& figures) {
  checkDraws(figures);
  checkAdvance(figures);
}

}  // namespace acoer
