// Groups in flight: a call that ends when some groups are complete, and sequences that go on in the
// next one.
#include <algorithm>
#include <map>

#include "emulated_gpu.h"
#include "generate_support.h"

namespace acoer::check {
namespace {

// What a sequence has after several calls.
void append(GeneratedSequence& whole, const GeneratedSequence& part) {
  whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
  whole.logprobs.insert(whole.logprobs.end(), part.logprobs.begin(), part.logprobs.end());
  whole.entropies.insert(whole.entropies.end(), part.entropies.begin(), part.entropies.end());
  whole.finish = part.finish;
}

// The request that goes on where `part` has stopped.
GenerateRequest continued(GenerateRequest request, int64_t sample, const GeneratedSequence& part) {
  const int64_t drawn = std::ssize(part.ids);
  request.promptIds.insert(request.promptIds.end(), part.ids.begin(), part.ids.end());
  request.firstSample += sample;
  request.numSamples = 1;
  request.firstToken = drawn;
  request.maxNewTokens -= drawn;
  return request;
}

// Made in pieces of `cut` tokens.
GeneratedSequence inPieces(const Model& model, const GenerateRequest& request, int64_t sample,
                           int64_t cut, DecodePath path) {
  GeneratedSequence whole;
  while (true) {
    GenerateRequest rest = continued(request, sample, whole);
    const int64_t left = rest.maxNewTokens;
    rest.maxNewTokens = std::min(cut, left);
    append(whole, alone(model, rest, 0, path));
    if (whole.finish == FinishReason::kStop || left <= cut) return whole;
  }
}

std::vector<GenerateRequest> groupRequests(const ModelSpec& spec, const Policy* policy) {
  std::vector<GenerateRequest> requests;
  for (uint64_t g = 0; g < 4; ++g) {
    GenerateRequest request =
        makeRequest(randomIds(spec, static_cast<int64_t>(5 + 17 * g), g), 3, 40, policy);
    request.stopIds = {static_cast<int32_t>(g + 1), 7, 9};
    request.seed = 50 + g;
    request.firstSample = static_cast<int64_t>(2 * g);
    request.group = static_cast<int64_t>(g);
    if (g == 1) request.sampling = {.temperature = 0.8, .topP = 0.9, .repetitionPenalty = 1.2};
    requests.push_back(request);
  }
  return requests;
}

ACOER_TEST(generate_goes_on_where_a_sequence_stopped) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 61);
  const auto adapter = strongAdapter(model, 62);
  for (const GenerateRequest& request : groupRequests(model->spec, adapter.get())) {
    for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
      for (int64_t sample = 0; sample < request.numSamples; ++sample) {
        const GeneratedSequence whole = alone(*model, request, sample, path);
        for (int64_t cut : {1, 2, 7, 16, 39}) {
          // Our own kernels: bit for bit.
          checkSame(inPieces(*model, request, sample, cut, path), whole,
                    path == DecodePath::kAuto ? 0 : 1e-5);
        }
      }
    }
  }
}

// Nothing here has run on a GPU: without one the kernels are emulated.
ACOER_TEST(gpu_kernels_go_on_where_a_sequence_stopped) {
  ModelSpec spec = tinySpec();
  spec.headDim = 64;
  const auto model = randomModel(spec, checkDevice(), at::kFloat, 67);
  model->kernels = kernelsToCheck();
  GenerateRequest request = makeRequest(randomIds(spec, 9, 3), 1, 21);
  request.sampling.repetitionPenalty = 1.2;
  const GeneratedSequence whole = alone(*model, request, 0);
  for (int64_t cut : {3, 8}) {
    checkSame(inPieces(*model, request, 0, cut, DecodePath::kAuto), whole, 1e-4);
  }
}

int64_t completeUpTo(const std::vector<GenerateRequest>& requests, const Generated& generated,
                     int64_t last) {
  int64_t complete = 0;
  for (int64_t group = 0; group <= last; ++group) {
    bool whole = true;
    for (const auto& [key, sequence] : generated.sequences) {
      if (requests[static_cast<size_t>(key.first)].group != group) continue;
      whole = whole && sequence.finish != FinishReason::kPartial;
    }
    complete += whole ? 1 : 0;
  }
  return complete;
}

ACOER_TEST(generate_ends_when_enough_groups_are_complete) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 63);
  const auto requests = groupRequests(model->spec, nullptr);
  const Generated whole = collect(*model, requests);
  const std::vector<std::vector<int64_t>> all = {
      {0, 0, 0, 1}, {0, 0, 0, 2}, {1, 1, 1, 1}, {0, 0, 1, 2}, {1, 2, 3, 4}};
  for (const auto& wanted : all) {
    for (int64_t maxSlots : {2, 64}) {
      GenerateOptions options;
      options.maxSlots = maxSlots;
      options.completeGroups = wanted;
      const Generated some = collect(*model, requests, options);
      ACOER_CHECK(some.sequences.size() == whole.sequences.size());
      for (int64_t group = 0; group < 4; ++group) {
        ACOER_CHECK(completeUpTo(requests, some, group) >= wanted[static_cast<size_t>(group)]);
      }
      int64_t tokens = 0;
      for (const auto& [key, sequence] : some.sequences) {
        const GeneratedSequence& uncut = whole.sequences.at(key);
        tokens += std::ssize(sequence.ids);
        if (sequence.finish != FinishReason::kPartial) {
          checkSame(sequence, uncut, 0);
          continue;
        }
        ACOER_CHECK(sequence.ids.size() < uncut.ids.size());
        ACOER_CHECK(std::equal(sequence.ids.begin(), sequence.ids.end(), uncut.ids.begin()));
        const GenerateRequest& request = requests[static_cast<size_t>(key.first)];
        GeneratedSequence joined = sequence;
        append(joined, alone(*model, continued(request, key.second, sequence), 0));
        checkSame(joined, uncut, 0);
      }
      ACOER_CHECK(some.stats.newTokens == tokens);
      ACOER_CHECK((tokens < whole.stats.newTokens) == (wanted.back() < 4));
    }
  }
}

// When a call ends must not depend on when somebody is told of its progress.
ACOER_TEST(generate_ends_at_the_same_tokens_whoever_listens) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 64);
  const auto requests = groupRequests(model->spec, nullptr);
  GenerateOptions options;
  options.completeGroups = {0, 0, 0, 1};
  const Generated silent = collect(*model, requests, options);
  options.onProgress = [](GenerateProgress&&) {};
  options.progressEveryMs = 0;
  const Generated told = collect(*model, requests, options);
  for (const auto& [key, sequence] : silent.sequences) {
    checkSame(told.sequences.at(key), sequence, 0);
    ACOER_CHECK(told.sequences.at(key).finish == sequence.finish);
  }
}

ACOER_TEST(generate_takes_groups_without_requests_for_complete) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 65);
  auto requests = groupRequests(model->spec, nullptr);
  requests.erase(requests.begin() + 2);
  GenerateOptions options;
  options.completeGroups = {0, 0, 0, 1};
  const Generated nothing = collect(*model, requests, options);
  ACOER_CHECK(nothing.stats.newTokens == 0);
  ACOER_CHECK(nothing.sequences.size() == 9);
  for (const auto& [key, sequence] : nothing.sequences) {
    ACOER_CHECK(sequence.finish == FinishReason::kPartial);
  }
}

ACOER_TEST(generate_refuses_groups_that_cannot_be) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 66);
  GenerateRequest request = makeRequest(randomIds(model->spec, 4, 1), 1, 4);
  GenerateOptions options;
  options.completeGroups = {1, 3};
  ACOER_CHECK_THROWS(collect(*model, {request}, options), ErrorCode::kBadArgument,
                     "completeGroups[1]");
  options.completeGroups = {1, 1};
  request.group = 2;
  ACOER_CHECK_THROWS(collect(*model, {request}, options), ErrorCode::kBadArgument, "group");
  request.group = 0;
  request.firstToken = 4;
  ACOER_CHECK_THROWS(collect(*model, {request}, options), ErrorCode::kBadArgument, "firstToken");
}

}  // namespace
}  // namespace acoer::check
