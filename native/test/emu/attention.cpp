// The decode attention kernels against float64, over lengths around the edges of tiles and splits.
// All keys and values that must not be read are NaN.
#include "kernels/attention.cuh"

#include <array>

#include "check.h"

using namespace acoer::cuda;

namespace {

using Lengths = std::vector<int>;
using AttentionKernel = void (*)(AttentionArgs);

// In the order of kAttentionGroups. C: what the cache holds.
template <class T, class C, int K>
std::array<AttentionKernel, kAttentionGroupCount> kernelsOf() {
#define ACOER_GROUPS(name, K)                                                 \
  {                                                                           \
    acoer_attention_##name##_##K##_g1, acoer_attention_##name##_##K##_g2,     \
        acoer_attention_##name##_##K##_g4, acoer_attention_##name##_##K##_g6, \
        acoer_attention_##name##_##K##_g8                                     \
  }
  if constexpr (std::is_same_v<C, int8_t>) {
    if constexpr (K == 64) return ACOER_GROUPS(bf16_int8, 64);
    if constexpr (K == 96) return ACOER_GROUPS(bf16_int8, 96);
    if constexpr (K == 128) return ACOER_GROUPS(bf16_int8, 128);
  } else if constexpr (std::is_same_v<T, float>) {
    if constexpr (K == 64) return ACOER_GROUPS(fp32, 64);
    if constexpr (K == 96) return ACOER_GROUPS(fp32, 96);
    if constexpr (K == 128) return ACOER_GROUPS(fp32, 128);
  } else {
    if constexpr (K == 64) return ACOER_GROUPS(bf16, 64);
    if constexpr (K == 96) return ACOER_GROUPS(bf16, 96);
    if constexpr (K == 128) return ACOER_GROUPS(bf16, 128);
  }
#undef ACOER_GROUPS
}

// A batch of rows over a cache; row n has `lengths[n]` positions in pages of its own. In a cache of
// codes it is the scales of unwritten positions that are NaN.
template <class T, int K, class C = T>
struct Batch {
  static constexpr bool kScaled = std::is_same_v<C, int8_t>;
  int kvHeads, group, pagePositions, pagesPerRow, splits;
  Lengths lengths;
  std::vector<T> q;
  std::vector<C> keys, values;
  std::vector<float> keyScales, valueScales;
  std::vector<int32_t> pages, positions;
  std::vector<int32_t> bundles;  // empty: each row on its own

  // `page`: positions of one; 0: each row has one page.
  Batch(Lengths rows, int kvHeads, int group, uint64_t seed, int page = 0)
      : kvHeads(kvHeads), group(group), lengths(std::move(rows)) {
    emu::Data data(seed);
    const int count = static_cast<int>(lengths.size());
    const int longest = *std::max_element(lengths.begin(), lengths.end());
    pagePositions = page == 0 ? (longest + 15) / 16 * 16 : page;
    pagesPerRow = (longest + pagePositions - 1) / pagePositions;
    splits = attentionSplits((longest + 15) / 16 * 16);
    const int pageCount = count * pagesPerRow + 2;
    q = data.normals<T>(lengths.size() * size_t(kvHeads * group * K));
    const size_t places = size_t(pageCount) * size_t(kvHeads) * size_t(pagePositions);
    keys = values = unwrittenElements(places * K);
    if (kScaled) keyScales = valueScales = emu::unwritten<float>(places);
    pages = data.distinct(count * pagesPerRow, pageCount);
    for (size_t n = 0; n < lengths.size(); ++n) {
      positions.push_back(lengths[n] - 1);
      for (int j = 0; j < kvHeads; ++j) {
        fill(data, n, j, keys, keyScales);
        fill(data, n, j, values, valueScales);
      }
    }
  }

  static std::vector<C> unwrittenElements(size_t count) {
    if constexpr (kScaled) {
      return std::vector<C>(count, 127);
    } else {
      return emu::unwritten<C>(count);
    }
  }
  void fill(emu::Data& data, size_t n, int j, std::vector<C>& cache, std::vector<float>& scales) {
    for (int t = 0; t < lengths[n]; ++t) {
      C* live = &cache[placeOf(n, j, t) * K];
      if constexpr (kScaled) {
        scales[placeOf(n, j, t)] = static_cast<float>(0.005 + 0.01 * data.uniform());
        for (int k = 0; k < K; ++k)
          live[k] = static_cast<C>(std::lround(254 * data.uniform()) - 127);
      } else {
        const std::vector<T> row = data.normals<T>(K, 0.3);
        std::copy_n(row.begin(), K, live);
      }
    }
  }

  // Position t of head j of row n.
  size_t placeOf(size_t n, int j, int t) const {
    const int32_t page = pages[n * size_t(pagesPerRow) + size_t(t / pagePositions)];
    const size_t head = size_t(page) * size_t(kvHeads) + size_t(j);
    return head * size_t(pagePositions) + size_t(t % pagePositions);
  }
  static double read(const std::vector<C>& cache, const std::vector<float>& scales, size_t place,
                     int k) {
    const double element = emu::toDouble(cache[place * K + size_t(k)]);
    return kScaled ? element * static_cast<double>(scales[place]) : element;
  }

  std::vector<T> attend() const {
    const auto rows = static_cast<unsigned>(lengths.size());
    const bool bundled = !bundles.empty();
    const size_t items = lengths.size() * size_t(kvHeads * splits * group);
    std::vector<float> sums = emu::unwritten<float>(items * K);
    std::vector<float> stats = emu::unwritten<float>(items * 2);
    std::vector<T> out = emu::unwritten<T>(q.size());
    const AttentionArgs args{.q_NHK = q.data(),
                             .keys_SJLK = keys.data(),
                             .values_SJLK = values.data(),
                             .keyScales_SJL = keyScales.data(),
                             .valueScales_SJL = valueScales.data(),
                             .pages_NT = pages.data(),
                             .positions_N = positions.data(),
                             .bundles_B1 = bundled ? bundles.data() : nullptr,
                             .sums_NJsGK = sums.data(),
                             .stats_NJsG2 = stats.data(),
                             .out_NHK = out.data(),
                             .qStride = int64_t{kvHeads} * group * K,
                             .kvHeads = kvHeads,
                             .group = group,
                             .splits = splits,
                             .pagesPerRow = pagesPerRow,
                             .pagePositions = pagePositions,
                             .scale = static_cast<float>(1 / std::sqrt(K))};
    const int queries = bundled ? group * rowsPerBundle(group) : group;
    const unsigned blocks = bundled ? static_cast<unsigned>(bundles.size() - 1) : rows;
    emu::launch(kernelsOf<T, C, K>()[attentionGroupIndex(queries)],
                dim3(unsigned(splits), unsigned(kvHeads), blocks), dim3(kAttentionThreads), 0,
                args);
    if (splits > 1) {
      const CombineArgs rest{.sums_NJsGK = sums.data(),
                             .stats_NJsG2 = stats.data(),
                             .positions_N = positions.data(),
                             .out_NHK = out.data(),
                             .kvHeads = kvHeads,
                             .group = group,
                             .headDim = K,
                             .splits = splits};
      emu::launch(std::is_same_v<T, float> ? acoer_combine_fp32 : acoer_combine_bf16,
                  dim3(unsigned(kvHeads * group), rows), dim3(kCombineThreads), 0, rest);
    }
    return out;
  }

  // Head h of row n, exact.
  std::vector<double> exact(size_t n, int h) const {
    const T* query = &q[(n * size_t(kvHeads * group) + size_t(h)) * K];
    std::vector<double> scores, out(K, 0);
    for (int t = 0; t < lengths[n]; ++t) {
      const size_t place = placeOf(n, h / group, t);
      double score = 0;
      for (int k = 0; k < K; ++k)
        score += emu::toDouble(query[k]) * read(keys, keyScales, place, k);
      scores.push_back(score / std::sqrt(K));
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (int t = 0; t < lengths[n]; ++t) {
      const size_t place = placeOf(n, h / group, t);
      const double weight = std::exp(scores[size_t(t)] - top);
      total += weight;
      for (int k = 0; k < K; ++k) out[size_t(k)] += weight * read(values, valueScales, place, k);
    }
    for (double& sum : out) sum /= total;
    return out;
  }

  void check() const {
    const std::string what = "attention of head size " + std::to_string(K) + ", group " +
                             std::to_string(group) + ", length ";
    const std::vector<T> found = attend();
    const int heads = kvHeads * group;
    for (size_t n = 0; n < lengths.size(); ++n) {
      for (int h = 0; h < heads; ++h) {
        const std::vector<double> expected = exact(n, h);
        for (size_t k = 0; k < K; ++k) {
          // All sums are fp32's over values of size 1 to 4; the result is rounded to T once.
          const double bound = 4e-6 + 1.01 * emu::kRounding<T> * std::abs(expected[k]);
          emu::expectNear(emu::toDouble(found[(n * size_t(heads) + size_t(h)) * K + k]),
                          expected[k], bound, what + std::to_string(lengths[n]));
        }
      }
    }
  }
};

template <class T, int K, class C = T>
void checkGroups() {
  emu::forEachSchedule(
      [] {
        for (int group = 1; group <= 8; ++group) {
          Batch<T, K, C>({1, 257, 30 + group}, 2, group, static_cast<uint64_t>(group)).check();
        }
      },
      1);
}

}  // namespace

EMU_TEST(attention_lengths) {
  emu::forEachSchedule([] {
    uint64_t seed = 1;
    for (const Lengths& lengths :
         {Lengths{1}, Lengths{2}, Lengths{15, 16, 17}, Lengths{255, 256, 257},
          Lengths{511, 512, 513, 2}, Lengths{1023, 1}, Lengths{32, 33, 31, 1000}}) {
      Batch<Bf16, 128>(lengths, 2, 2, seed++).check();
    }
  });
}
EMU_TEST(attention_lengths_int8) {
  emu::forEachSchedule([] {
    uint64_t seed = 1;
    for (const Lengths& lengths : {Lengths{1}, Lengths{15, 16, 17}, Lengths{255, 256, 257},
                                   Lengths{513, 2}, Lengths{33, 31, 1000}}) {
      Batch<Bf16, 128, int8_t>(lengths, 2, 2, seed++).check();
    }
  });
}
EMU_TEST(attention_lengths_fp32) {
  emu::forEachSchedule(
      [] { Batch<float, 64>({1, 15, 16, 17, 31, 255, 256, 257, 513}, 1, 2, 1).check(); });
}
EMU_TEST(attention_many_splits) { Batch<float, 64>({4100, 300}, 1, 1, 5).check(); }
// Rows in several pages, of one block of attention and of more.
EMU_TEST(attention_pages) {
  emu::forEachSchedule([] {
    Batch<Bf16, 128>({255, 256, 257, 600, 1}, 2, 2, 8, kAttentionSplit).check();
    Batch<float, 64>({513, 30, 1100}, 1, 2, 9, 2 * kAttentionSplit).check();
    Batch<Bf16, 128, int8_t>({255, 256, 257, 600, 1}, 2, 2, 10, kAttentionSplit).check();
  });
}
EMU_TEST(attention_any_row_count) {
  emu::forEachSchedule(
      [] {
        for (size_t rows = 1; rows <= 17; ++rows) {
          Lengths lengths;
          for (size_t n = 0; n < rows; ++n) lengths.push_back(int(1 + (n * 37 + rows * 11) % 290));
          Batch<Bf16, 64>(lengths, 1, 1, rows).check();
        }
      },
      1);
}
EMU_TEST(attention_groups_bf16_64) { checkGroups<Bf16, 64>(); }
EMU_TEST(attention_groups_bf16_96) { checkGroups<Bf16, 96>(); }
EMU_TEST(attention_groups_bf16_128) { checkGroups<Bf16, 128>(); }
EMU_TEST(attention_groups_fp32_64) { checkGroups<float, 64>(); }
EMU_TEST(attention_groups_fp32_96) { checkGroups<float, 96>(); }
EMU_TEST(attention_groups_fp32_128) { checkGroups<float, 128>(); }
EMU_TEST(attention_groups_int8_64) { checkGroups<Bf16, 64, int8_t>(); }
EMU_TEST(attention_groups_int8_96) { checkGroups<Bf16, 96, int8_t>(); }
EMU_TEST(attention_groups_int8_128) { checkGroups<Bf16, 128, int8_t>(); }

// Scores far apart, where exponentials without the maximum taken off would overflow.
EMU_TEST(attention_large_scores) {
  Batch<float, 64> batch({40, 300}, 1, 2, 7);
  for (float& value : batch.q) value *= 100;
  batch.check();
}

// A row's result is the same, bit by bit, alone and beside longer rows, and idle rows are left out.
template <class C>
void checkInvariance() {
  using Rows = Batch<Bf16, 128, C>;
  const Rows all({300, 40, 700, 257}, 2, 2, 3);
  const std::vector<Bf16> together = all.attend();
  const size_t row = all.q.size() / all.lengths.size();
  for (size_t n = 0; n < all.lengths.size(); ++n) {
    Rows alone = all;
    alone.lengths = {all.lengths[n]};
    alone.pages = {all.pages[n]};
    alone.positions = {all.positions[n]};
    alone.splits = attentionSplits(all.lengths[n]);
    alone.q.assign(all.q.begin() + long(n * row), all.q.begin() + long((n + 1) * row));
    const std::vector<Bf16> expected(together.begin() + long(n * row),
                                     together.begin() + long((n + 1) * row));
    emu::expectSame(alone.attend(), expected, "a row alone");
  }
  Rows idle = all;
  idle.positions[1] = -1;
  std::vector<Bf16> expected = together;
  const std::vector<Bf16> nothing = emu::unwritten<Bf16>(row);
  std::copy(nothing.begin(), nothing.end(), expected.begin() + long(row));
  emu::expectSame(idle.attend(), expected, "beside an idle row");
}
EMU_TEST(attention_batch_invariance) {
  emu::forEachSchedule([] { checkInvariance<Bf16>(); });
}
EMU_TEST(attention_batch_invariance_int8) {
  emu::forEachSchedule([] { checkInvariance<int8_t>(); });
}

// Each sequence's last rows, at positions that follow each other, attend as they do on their own.
template <class T, int K, class C = T>
void checkBundles(int group) {
  const int most = rowsPerBundle(group);
  Batch<T, K, C> batch({3, 513, 258, 2}, 2, group, 11, 256);
  const Batch<T, K, C> ends = batch;
  batch.lengths.clear();
  batch.pages.clear();
  batch.positions.clear();
  for (size_t s = 0; s < ends.lengths.size(); ++s) {
    const int rows = std::min({most, ends.lengths[s], 2 + 2 * static_cast<int>(s)});
    batch.bundles.push_back(static_cast<int32_t>(batch.lengths.size()));
    for (int length = ends.lengths[s] - rows + 1; length <= ends.lengths[s]; ++length) {
      batch.lengths.push_back(length);
      batch.positions.push_back(length - 1);
      const auto pages = ends.pages.begin() + long(s) * ends.pagesPerRow;
      batch.pages.insert(batch.pages.end(), pages, pages + ends.pagesPerRow);
    }
  }
  // The last bundle is idle.
  for (int i = 0; i < 2; ++i) batch.bundles.push_back(static_cast<int32_t>(batch.lengths.size()));
  emu::Data data(12);
  batch.q = data.normals<T>(batch.lengths.size() * size_t(2 * group * K));
  batch.check();
  const std::vector<T> together = batch.attend();
  batch.bundles.clear();
  emu::expectSame(together, batch.attend(), "rows of a bundle, group " + std::to_string(group));
}
EMU_TEST(attention_bundles) {
  emu::forEachSchedule(
      [] {
        for (int group = 1; group <= 8; ++group) checkBundles<Bf16, 64>(group);
      },
      1);
}
EMU_TEST(attention_bundles_fp32) {
  emu::forEachSchedule([] { checkBundles<float, 96>(2); }, 1);
}
EMU_TEST(attention_bundles_int8) {
  emu::forEachSchedule([] { checkBundles<Bf16, 128, int8_t>(2); }, 1);
}
