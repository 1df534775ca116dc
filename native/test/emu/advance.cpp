// The kernel between two decode steps against the host's bookkeeping of the same sequences.
#include "kernels/advance.cuh"

#include <algorithm>

#include "check.h"

using namespace acoer::cuda;

namespace {

struct Sequence {
  int32_t id = 0, position = 0, left = 0;
  std::vector<int32_t> stops;
  bool live = true;
};

// Steps `rows` sequences several times around the ring of the history.
void checkSteps(int rows, int capacity, int steps) {
  emu::Data data(static_cast<uint64_t>(rows * 100 + capacity));
  const auto below = [&](int bound) { return static_cast<int32_t>(data.uniform() * bound); };
  const auto N = static_cast<size_t>(rows);
  std::vector<Sequence> sequences(N);
  std::vector<int32_t> stopIds{-7};  // before the first row's
  std::vector<SequenceState> states(N);
  std::vector<SamplerRow> samplers(N);
  std::vector<int32_t> ids(N), positions(N);
  for (size_t n = 0; n < N; ++n) {
    Sequence& s = sequences[n];
    s = {below(50), below(1000), 1 + below(2 * steps), {}, n % 7 != 3};
    for (int i = below(4); i > 0; --i) s.stops.push_back(below(20));
    states[n] = {s.left, static_cast<int32_t>(stopIds.size()), 0};
    stopIds.insert(stopIds.end(), s.stops.begin(), s.stops.end());
    states[n].stopEnd = static_cast<int32_t>(stopIds.size());
    samplers[n].position = n * 3;
    samplers[n].logitsRow = s.live ? static_cast<int32_t>(n) : -1;
    ids[n] = s.id;
    positions[n] = s.live ? s.position : -1;
  }
  int32_t place = capacity - 1;
  std::vector<SampledToken> tokens(N), history(N * static_cast<size_t>(capacity));
  for (int step = 0; step < steps; ++step) {
    for (SampledToken& token : tokens) {
      token = {below(40), static_cast<float>(-data.uniform()), 1, below(30) != 0};
    }
    const int32_t expectedPlace = (place + 1) % capacity;
    const auto first = static_cast<size_t>(place) * N;
    emu::launch(acoer_advance, dim3(1), dim3(kAdvanceThreads), 0,
                AdvanceArgs{.tokens_N = tokens.data(),
                            .history_CN = history.data(),
                            .place = &place,
                            .sequences_N = states.data(),
                            .rows_N = samplers.data(),
                            .ids_N = ids.data(),
                            .positions_N = positions.data(),
                            .stopIds = stopIds.data(),
                            .rows = rows,
                            .capacity = capacity});
    if (place != expectedPlace) emu::fail("the history goes on at the wrong place");
    for (size_t n = 0; n < N; ++n) {
      Sequence& s = sequences[n];
      const std::string row = "row " + std::to_string(n);
      if (s.live) {
        const SampledToken& token = tokens[n];
        if (!emu::sameBits(history[first + n], token)) emu::fail(row + ": another token is kept");
        s.left -= 1;
        s.position += 1;
        s.live = token.finite && s.left > 0 &&
                 std::find(s.stops.begin(), s.stops.end(), token.id) == s.stops.end();
        if (ids[n] != token.id) emu::fail(row + ": another token is fed");
      }
      if (positions[n] != (s.live ? s.position : -1)) emu::fail(row + ": wrong position");
      if ((samplers[n].logitsRow < 0) == s.live) emu::fail(row + ": the sampler does not know");
    }
  }
}

}  // namespace

EMU_TEST(advance_follows_the_sequences) {
  emu::forEachSchedule([] {
    for (const int rows : {1, 31, 256, 300}) {
      checkSteps(rows, 8, 19);
      checkSteps(rows, 1, 3);
    }
  });
}
