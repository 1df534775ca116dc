// The kernels of LoRA adapters in a decode step against float64, and against the roundings of
// DecodeOps::addAdapter and swiglu in native/core.
#include "kernels/lora.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

std::string sizes(const char* what, int rows, int ranks, int width) {
  return std::string(what) + " of " + std::to_string(rows) + " rows, " + std::to_string(ranks) +
         " ranks and " + std::to_string(width) + " elements";
}

dim3 gridOf(int x, int y) { return {static_cast<unsigned>(x), static_cast<unsigned>(y)}; }

template <class T>
void checkRanks(int rows, int ranks, int inputs) {
  const std::string what = sizes("products", rows, ranks, inputs);
  const auto N = static_cast<size_t>(rows), R = static_cast<size_t>(ranks);
  const auto I = static_cast<size_t>(inputs);
  emu::Data data(static_cast<uint64_t>((rows * 100 + ranks) * 10000 + inputs));
  const std::vector<T> x = data.normals<T>(N * I, 0.1, 2), a = data.normals<T>(R * I, 0, 0.02);
  std::vector<T> found = emu::unwritten<T>(N * R);
  const LoraRanksArgs args{.x_NI = x.data(),
                           .a_RI = a.data(),
                           .ranks_NR = found.data(),
                           .rows = rows,
                           .ranks = ranks,
                           .inputs = inputs};
  constexpr bool fp32 = std::is_same_v<T, float>;
  emu::launch(fp32 ? acoer_lora_ranks_fp32 : acoer_lora_ranks_bf16,
              gridOf(loraTiles(ranks), loraTiles(rows)), dim3(kLoraRanksThreads), 0, args);

  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    for (size_t r = 0; r < R; ++r) {
      double sum = 0, size = 0;
      for (size_t i = 0; i < I; ++i) {
        const double product = emu::toDouble(x[n * I + i]) * emu::toDouble(a[r * I + i]);
        sum += product;
        size += std::abs(product);
      }
      const double bound = 1e-6 * size + 1.01 * emu::kRounding<T> * std::abs(sum);
      emu::expectNear(emu::toDouble(found[n * R + r]), sum, bound, what);
      if (!fp32) roundings.add(found[n * R + r], emu::toStorage<T>(sum));
    }
  }
  roundings.expect(what);
}

// Adapters of a fused linear. `ranks` and `columns` of each, of which those without ranks are the
// linears that have no adapter.
struct Fused {
  std::vector<int> ranks, columns;
  int outputs() const { return std::accumulate(columns.begin(), columns.end(), 0); }
  int allRanks() const { return std::accumulate(ranks.begin(), ranks.end(), 0); }
};

// What the two kernels that add are given, and float64's answer.
template <class T>
struct Addition {
  size_t N, O, R;
  emu::Data data;
  std::vector<T> ranks, bT, y;
  std::vector<double> exact, sizes;  // y after the addition; the sums of its products' sizes
  LoraAddArgs args{};

  Addition(int rows, const Fused& fused)
      : N(static_cast<size_t>(rows)),
        O(static_cast<size_t>(fused.outputs())),
        R(static_cast<size_t>(fused.allRanks())),
        data(rows * 10000 + O + R),
        ranks(data.normals<T>(N * R)),
        bT(emu::unwritten<T>(R * O)),
        y(data.normals<T>(N * O, 0, 3)),
        exact(N * O),
        sizes(N * O) {
    args = {.ranks_NR = ranks.data(),
            .bT_RO = bT.data(),
            .y_NO = y.data(),
            .adapters = {},
            .rows = rows,
            .ranks = fused.allRanks(),
            .outputs = fused.outputs()};
    for (size_t i = 0; i < y.size(); ++i) exact[i] = emu::toDouble(y[i]);
    LoraAdapter next{};
    LoraAdapter* to = args.adapters;
    for (size_t i = 0; i < fused.ranks.size(); ++i) {
      next.ranks = fused.ranks[i];
      next.columns = fused.columns[i];
      if (next.ranks > 0) add(*to++ = next);
      next.firstRank += next.ranks;
      next.firstColumn += next.columns;
    }
  }

  void add(const LoraAdapter& adapter) {
    for (int j = 0; j < adapter.ranks; ++j) {
      const auto r = static_cast<size_t>(adapter.firstRank + j);
      for (int k = 0; k < adapter.columns; ++k) {
        const auto o = static_cast<size_t>(adapter.firstColumn + k);
        bT[r * O + o] = emu::toStorage<T>(0.2 * data.normal());
        for (size_t n = 0; n < N; ++n) {
          const double product = emu::toDouble(ranks[n * R + r]) * emu::toDouble(bT[r * O + o]);
          exact[n * O + o] += product;
          sizes[n * O + o] += std::abs(product);
        }
      }
    }
  }
};

template <class T>
void checkAdd(int rows, const Fused& fused) {
  const std::string what = sizes("sums", rows, fused.allRanks(), fused.outputs());
  constexpr bool fp32 = std::is_same_v<T, float>;
  Addition<T> addition(rows, fused);
  emu::launch(fp32 ? acoer_lora_add_fp32 : acoer_lora_add_bf16,
              gridOf(loraAddBlocks(fused.outputs()), loraAddRowBlocks(rows)), dim3(kLoraAddThreads),
              0, addition.args);
  emu::SameRoundings roundings;
  for (size_t i = 0; i < addition.y.size(); ++i) {
    const double exact = addition.exact[i];
    const double bound = 1e-6 * addition.sizes[i] + 1.01 * emu::kRounding<T> * std::abs(exact);
    emu::expectNear(emu::toDouble(addition.y[i]), exact, bound, what);
    if (!fp32) roundings.add(addition.y[i], emu::toStorage<T>(exact));
  }
  roundings.expect(what);
}

template <class T>
void checkSwiglu(int rows, int rank, int width) {
  const std::string what = sizes("swiglu", rows, rank, width);
  constexpr bool fp32 = std::is_same_v<T, float>;
  const auto F = static_cast<size_t>(width);
  Addition<T> addition(rows, {{rank, rank % 3}, {width, width}});
  const std::vector<T> before = addition.y;
  std::vector<T> act = emu::unwritten<T>(addition.N * F);
  emu::launch(fp32 ? acoer_lora_swiglu_fp32 : acoer_lora_swiglu_bf16,
              gridOf(loraAddBlocks(width), loraAddRowBlocks(rows)), dim3(kLoraAddThreads), 0,
              LoraSwigluArgs{addition.args, act.data()});
  emu::expectSame(addition.y, before, what + ": y");
  emu::SameRoundings roundings;
  for (size_t n = 0; n < addition.N; ++n) {
    for (size_t f = 0; f < F; ++f) {
      const size_t g = n * 2 * F + f, u = g + F;
      const double gate = addition.exact[g], up = addition.exact[u];
      const auto silu = [](double x) { return x / (1 + std::exp(-x)); };
      // Gate and up, silu and the product are rounded to T; silu's slope is below 1.1.
      const double gateOff = 1e-6 * addition.sizes[g] + 1.01 * emu::kRounding<T> * std::abs(gate);
      const double upOff = 1e-6 * addition.sizes[u] + 1.01 * emu::kRounding<T> * std::abs(up);
      const double last = (fp32 ? 2e-6 : 2.02 * emu::kRounding<T>)*std::abs(silu(gate) * up);
      const double bound = 1.1 * (1.1 * gateOff * std::abs(up) + std::abs(silu(gate)) * upOff) +
                           1.1 * gateOff * upOff + last * 1.1;
      emu::expectNear(emu::toDouble(act[n * F + f]), silu(gate) * up, bound, what);
      if (fp32) continue;
      const auto toT = [](double x) { return emu::toDouble(emu::toStorage<T>(x)); };
      roundings.add(act[n * F + f], emu::toStorage<T>(toT(silu(toT(gate))) * toT(up)));
    }
  }
  roundings.expect(what);
}

template <class T>
void checkRanksSizes() {
  emu::forEachSchedule([] {
    int rows = 0;
    for (const int inputs : {8, 64, 192, 1088, 2040, 2048, 2056, 4160}) {
      rows = rows % 17 + 1;
      checkRanks<T>(rows, 17 - rows, inputs);
    }
  });
}

template <class T>
void checkAddSizes() {
  emu::forEachSchedule([] {
    int rows = 1;
    for (const Fused& fused : {Fused{{1}, {8}}, Fused{{16}, {64}}, Fused{{5}, {2056}},
                               Fused{{4, 9, 3}, {96, 32, 32}}, Fused{{4, 0, 6}, {128, 64, 64}},
                               Fused{{0, 7, 0}, {64, 72, 56}}, Fused{{16, 16}, {520, 520}}}) {
      checkAdd<T>(rows, fused);
      rows += 5;
    }
  });
}

template <class T>
void checkSwigluSizes() {
  emu::forEachSchedule([] {
    int rows = 1;
    for (const int width : {8, 64, 192, 1088}) {
      checkSwiglu<T>(rows, rows + 1, width);
      rows += 6;
    }
  });
}

}  // namespace

EMU_TEST(lora_ranks_bf16) { checkRanksSizes<Bf16>(); }
EMU_TEST(lora_ranks_fp32) { checkRanksSizes<float>(); }
EMU_TEST(lora_add_bf16) { checkAddSizes<Bf16>(); }
EMU_TEST(lora_add_fp32) { checkAddSizes<float>(); }
EMU_TEST(lora_swiglu_bf16) { checkSwigluSizes<Bf16>(); }
EMU_TEST(lora_swiglu_fp32) { checkSwigluSizes<float>(); }
EMU_TEST(lora_ranks_any_row_count) {
  for (int rows = 1; rows <= 17; ++rows) checkRanks<Bf16>(rows, rows, 64);
}
