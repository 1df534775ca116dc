// What generate() reports while it decodes.
#include <chrono>
#include <limits>
#include <set>

#include "generate_support.h"

namespace acoer::check {
namespace {

// Two short samples, then longer ones and a prompt of many layers' work, in three slots.
std::vector<GenerateRequest> unevenRequests(const ModelSpec& spec) {
  return {makeRequest(randomIds(spec, 4, 1), 2, 5), makeRequest(randomIds(spec, 9, 2), 3, 40),
          makeRequest(randomIds(spec, 300, 3), 2, 20)};
}

ACOER_TEST(generate_progress_is_what_has_been_decoded) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 41);
  const auto requests = unevenRequests(model->spec);
  const Generated silent = collect(*model, requests, {.maxSlots = 3});
  std::set<SequenceKey> delivered;
  std::map<SequenceKey, int32_t> tokens;
  int64_t reports = 0, withinPrefill = 0, promptTokens = 0;
  GenerateOptions options{.maxSlots = 3, .progressEveryMs = 0};
  options.onProgress = [&](GenerateProgress&& progress) {
    reports += 1;
    ACOER_CHECK(progress.total == 7);
    ACOER_CHECK(progress.ended == static_cast<int64_t>(delivered.size()));
    ACOER_CHECK(progress.inFlight.size() % 3 == 0 && progress.inFlight.size() <= 9);
    ACOER_CHECK(progress.promptTokens >= promptTokens && progress.promptTokens <= 313);
    promptTokens = progress.promptTokens;
    withinPrefill += promptTokens > 0 && promptTokens < 313;
    for (size_t i = 0; i < progress.inFlight.size(); i += 3) {
      const SequenceKey key{progress.inFlight[i], progress.inFlight[i + 1]};
      ACOER_CHECK(!delivered.contains(key));
      const int32_t now = progress.inFlight[i + 2];
      ACOER_CHECK(now == tokens[key] || now == tokens[key] + 1);
      tokens[key] = now;
    }
  };
  Generated told;
  const Cancel cancel;
  told.stats = generate(
      *model, requests, options,
      [&](GeneratedSequence&& sequence) {
        const SequenceKey key{sequence.request, sequence.sample};
        ACOER_CHECK(tokens[key] + 1 == static_cast<int32_t>(sequence.ids.size()));
        delivered.insert(key);
        told.sequences.emplace(key, std::move(sequence));
      },
      cancel);
  ACOER_CHECK(delivered.size() == 7 && promptTokens == 313);
  ACOER_CHECK(withinPrefill > 0 && reports > told.stats.decodeSteps);
  ACOER_CHECK(told.stats.decodeSteps == silent.stats.decodeSteps);
  for (const auto& [key, sequence] : told.sequences) {
    ACOER_CHECK(sequence.ids == silent.sequences.at(key).ids);
    ACOER_CHECK(sequence.logprobs == silent.sequences.at(key).logprobs);
  }
}

ACOER_TEST(generate_progress_keeps_its_distance) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 42);
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> times{Clock::now()};
  GenerateOptions options{.progressEveryMs = 20};
  options.onProgress = [&](GenerateProgress&&) { times.push_back(Clock::now()); };
  collect(*model, {makeRequest({1, 2, 3}, 8, 1500)}, options);
  ACOER_CHECK(times.size() > 2);
  for (size_t i = 1; i < times.size(); ++i) {
    ACOER_CHECK(times[i] - times[i - 1] >= std::chrono::milliseconds(20));
  }
  times.resize(1);
  options.progressEveryMs = 1e9;
  collect(*model, {makeRequest({1, 2, 3}, 8, 100)}, options);
  ACOER_CHECK(times.size() == 1);
}

ACOER_TEST(generate_progress_ends_with_a_cancel) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 43);
  Cancel cancel;
  int64_t reports = 0, tokens = 0, cancelled = 0;
  GenerateOptions options{.progressEveryMs = 0};
  options.onProgress = [&](GenerateProgress&& progress) {
    reports += 1;
    if (progress.inFlight.empty() || progress.inFlight[2] < 3) return;
    ACOER_CHECK(tokens == 0);
    tokens = progress.inFlight[2];
    cancel.request();
    reports = 0;
  };
  generate(
      *model, {makeRequest({1, 2}, 2, 500), makeRequest({3}, 1, 500)}, options,
      [&](GeneratedSequence&& sequence) {
        ACOER_CHECK(static_cast<int64_t>(sequence.ids.size()) == tokens);
        cancelled += sequence.finish == FinishReason::kCancelled;
      },
      cancel);
  ACOER_CHECK(reports == 0 && tokens == 3 && cancelled == 3);
}

ACOER_TEST(generate_progress_needs_a_time) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 44);
  for (const double bad :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ACOER_CHECK_THROWS(collect(*model, {}, {.progressEveryMs = bad}), ErrorCode::kBadArgument,
                       "progressEveryMs must be 0 or positive");
  }
}

}  // namespace
}  // namespace acoer::check
