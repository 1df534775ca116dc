// The visit of the logits against float64.
#include "kernels/log_probs.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

enum class Probs { kNone, kOwn, kInPlace };

struct Case {
  int tokens, vocab;
  double temperature;
  Probs probs;
};

// Exact values of one row.
struct Row {
  std::vector<double> below;  // log-probs
  double entropy = 0, largest = 0;
};
Row exactRow(const float* logits, size_t V, double temperature) {
  Row row;
  row.largest = -INFINITY;
  for (size_t v = 0; v < V; ++v) row.largest = std::max(row.largest, logits[v] / temperature);
  double sum = 0;
  for (size_t v = 0; v < V; ++v) sum += std::exp(logits[v] / temperature - row.largest);
  for (size_t v = 0; v < V; ++v) {
    row.below.push_back(logits[v] / temperature - row.largest - std::log(sum));
    const double p = std::exp(row.below[v]);
    if (p > 0) row.entropy -= p * row.below[v];
  }
  return row;
}

template <class T>
void checkCase(const Case& c) {
  const std::string what = "log-probs of " + std::to_string(c.tokens) + " x " +
                           std::to_string(c.vocab) + " at " + std::to_string(c.temperature);
  constexpr bool fp32 = std::is_same_v<T, float>;
  const auto C = static_cast<size_t>(c.tokens), V = static_cast<size_t>(c.vocab);
  emu::Data data(static_cast<uint64_t>(c.tokens * 1000000 + c.vocab));
  std::vector<float> logits = data.normals<float>(C * V, -3, 4);
  std::vector<int64_t> targets;
  for (size_t t = 0; t < C; ++t) {
    targets.push_back(static_cast<int64_t>(data.uniform() * c.vocab));
    if (V < 7) continue;
    logits[t * V + V / 3] = t % 2 == 0 ? 35.0F : -INFINITY;  // a sure token, an impossible one
    if (t % 3 == 0) targets[t] = static_cast<int64_t>(V / 2);
  }
  const std::vector<float> input = logits;
  std::vector<float> found = emu::unwritten<float>(C), entropies = found;
  std::vector<T> probs = emu::unwritten<T>(C * V);
  void* to = c.probs == Probs::kNone  ? nullptr
             : c.probs == Probs::kOwn ? static_cast<void*>(probs.data())
                                      : logits.data();
  emu::launch(fp32 ? acoer_log_probs_fp32 : acoer_log_probs_bf16,
              dim3(static_cast<unsigned>(c.tokens)), dim3(kLogProbsThreads), 0,
              LogProbsArgs{.logits_CV = logits.data(),
                           .targets_C = targets.data(),
                           .logprobs_C = found.data(),
                           .entropies_C = entropies.data(),
                           .probs_CV = to,
                           .vocab = c.vocab,
                           .inverseTemperature = static_cast<float>(1 / c.temperature)});
  for (size_t t = 0; t < C; ++t) {
    const Row row = exactRow(&input[t * V], V, c.temperature);
    const auto target = static_cast<size_t>(targets[t]);
    // The sum is within 3e-6 of exact (at most 50 additions deep), a logit over the temperature
    // within 2^-23 of itself, and so is each difference.
    const auto bound = [&](double below) {
      return 3e-6 + 0x1p-22 * (std::abs(below) + std::abs(row.largest));
    };
    const double exact = row.below[target];
    if (std::isinf(exact)) {
      if (found[t] != exact) emu::fail(what + ": the log-prob of an impossible token");
    } else {
      emu::expectNear(found[t], exact, bound(exact), what + ": log-prob");
    }
    emu::expectNear(entropies[t], row.entropy, bound(0) * (2 + row.entropy), what + ": entropy");
    for (size_t v = 0; v < V && c.probs != Probs::kNone; ++v) {
      const double p = std::exp(row.below[v]);
      const double got =
          c.probs == Probs::kOwn ? emu::toDouble(probs[t * V + v]) : double{logits[t * V + v]};
      const double relative = std::isinf(row.below[v]) ? 0 : bound(row.below[v]) + 3e-7;
      emu::expectNear(got, p, p * (relative + 1.01 * emu::kRounding<T>)+1e-38,
                      what + ": probability");
    }
  }
  if (c.probs != Probs::kInPlace) emu::expectSame(logits, input, what + ": logits");
}

template <class T>
void checkSizes() {
  emu::forEachSchedule([] {
    int n = 0;
    for (const int vocab : {1, 7, 8, 100, 512, 4095, 4096, 4104, 12001}) {
      const Probs probs = n % 3 == 0                           ? Probs::kNone
                          : !std::is_same_v<T, float> || n % 2 ? Probs::kOwn
                                                               : Probs::kInPlace;
      checkCase<T>({n % 4 + 1, vocab, n % 2 == 0 ? 1 : 0.7, probs});
      checkCase<T>({4 - n % 4, vocab, n % 2 == 0 ? 1.3 : 1,
                    std::is_same_v<T, float> ? Probs::kInPlace : Probs::kOwn});
      ++n;
    }
  });
  checkCase<T>({1, 151936, 0.9, Probs::kOwn});
}

}  // namespace

EMU_TEST(log_probs_bf16) { checkSizes<Bf16>(); }
EMU_TEST(log_probs_fp32) { checkSizes<float>(); }

// A logit that is not a number must not be lost: the caller finds it in the log-prob.
EMU_TEST(log_probs_not_a_number) {
  emu::forEachSchedule([] {
    for (const size_t place : {size_t{0}, size_t{700}, size_t{1031}}) {
      std::vector<float> logits = emu::Data(5).normals<float>(1032);
      logits[place] = NAN;
      const std::vector<int64_t> target{3};
      std::vector<float> found(1), entropy(1);
      emu::launch(acoer_log_probs_bf16, dim3(1), dim3(kLogProbsThreads), 0,
                  LogProbsArgs{.logits_CV = logits.data(),
                               .targets_C = target.data(),
                               .logprobs_C = found.data(),
                               .entropies_C = entropy.data(),
                               .probs_CV = nullptr,
                               .vocab = 1032,
                               .inverseTemperature = 1});
      if (!std::isnan(found[0]) || !std::isnan(entropy[0])) emu::fail("a NaN logit was lost");
    }
  });
}
