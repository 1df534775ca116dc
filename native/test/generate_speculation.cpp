// Lossless speculation: proposals change how many steps a sequence takes, and nothing that is
// drawn.
#include <ATen/ATen.h>

#include "emulated_gpu.h"
#include "generate/speculation.h"
#include "generate_support.h"
#include "test_hooks.h"

namespace acoer::check {
namespace {

GenerateOptions speculating(int64_t tokens) { return {.numSpeculativeTokens = tokens}; }

ACOER_TEST(speculation_proposes_what_followed) {
  SpeculativeGroups groups;
  SpeculativeText one = groups.enter(3, {1, 2, 3, 4, 1, 2}, 0);
  const std::vector<int32_t> prompt{3, 4, 1, 2};
  ACOER_CHECK(one.propose(4) == prompt);
  ACOER_CHECK(one.propose(2) == std::vector<int32_t>({3, 4}));
  for (const int32_t id : {9, 8, 1, 2}) one.append(id);
  // Its own new tokens, the last time.
  ACOER_CHECK(one.propose(4) == std::vector<int32_t>({9, 8, 1, 2}));
  SpeculativeText two = groups.enter(3, {1, 2, 3, 4, 1, 2}, 0);
  // What its group made of the prompt, not the prompt itself.
  ACOER_CHECK(two.propose(2) == std::vector<int32_t>({9, 8}));
  two.append(7);
  ACOER_CHECK(two.propose(4).empty());
  ACOER_CHECK(one.propose(2) == std::vector<int32_t>({9, 8}));
  SpeculativeText elsewhere = groups.enter(4, {1, 2}, 0);
  ACOER_CHECK(elsewhere.propose(4).empty());
  // A completion that goes on brings its own tokens.
  SpeculativeText goesOn = groups.enter(5, {1, 2, 5, 6, 1, 2}, 3);
  ACOER_CHECK(goesOn.propose(1) == std::vector<int32_t>({5}));
  ACOER_CHECK(groups.enter(6, {4}, 0).propose(4).empty());
}

ACOER_TEST(speculation_shares_room_by_depth) {
  const std::vector<int64_t> proposed{3, 0, 1, 4};
  ACOER_CHECK(sharedRoom(proposed, 100) == proposed);
  ACOER_CHECK(sharedRoom(proposed, 0) == std::vector<int64_t>({0, 0, 0, 0}));
  ACOER_CHECK(sharedRoom(proposed, 4) == std::vector<int64_t>({2, 0, 1, 1}));
  ACOER_CHECK(sharedRoom({}, 4).empty());
}

// Every option, cold enough for texts to repeat themselves.
std::vector<GenerateRequest> repetitiveRequests(const ModelSpec& spec,
                                                const std::vector<const Policy*>& policies) {
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {33, 1, 100, 2, 17, 180}) {
    const size_t i = requests.size();
    std::vector<int32_t> prompt = randomIds(spec, length, 50 + i);
    for (size_t t = 7; t < prompt.size(); ++t) prompt[t] = prompt[t % 7];
    requests.push_back(
        makeRequest(prompt, 4, 20 + static_cast<int64_t>(13 * i), policies[i % policies.size()]));
    requests.back().stopIds = {static_cast<int32_t>(2 + i)};
    requests.back().seed = 60 + i;
    requests.back().sampling.temperature = i % 3 == 0 ? 0 : 0.2;
  }
  requests[2].sampling = {.temperature = 0.3, .topK = 5, .topP = 0.9, .repetitionPenalty = 1.01};
  return requests;
}

void checkLossless(const Model& model, const std::vector<GenerateRequest>& requests,
                   GenerateOptions options, const std::vector<int64_t>& counts, double bound) {
  const Generated plain = collect(model, requests, options);
  ACOER_CHECK(plain.stats.proposedTokens == 0 && plain.stats.acceptedTokens == 0);
  for (const int64_t tokens : counts) {
    options.numSpeculativeTokens = tokens;
    const Generated got = collect(model, requests, options);
    ACOER_CHECK(got.sequences.size() == plain.sequences.size());
    for (const auto& [key, sequence] : got.sequences) {
      checkSame(sequence, plain.sequences.at(key), bound);
    }
    const GenerateStats &stats = got.stats, &without = plain.stats;
    ACOER_CHECK(stats.newTokens == without.newTokens);
    ACOER_CHECK(stats.decodeSteps < without.decodeSteps);
    ACOER_CHECK(0 < stats.acceptedTokens && stats.acceptedTokens < stats.proposedTokens);
  }
}

ACOER_TEST(speculation_changes_no_token_on_a_cpu) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto model = tinyModel(dtype, 41);
    const auto adapter = strongAdapter(model, 42), other = strongAdapter(model, 43);
    const auto requests = repetitiveRequests(model->spec, {adapter.get(), nullptr, other.get()});
    for (const int64_t maxSlots : {1, 3, 11}) {
      GenerateOptions options;
      options.maxSlots = maxSlots;
      checkLossless(*model, requests, options, {1, 4, 16}, 0);
      options.kvCacheDtype = KvCacheDtype::kInt8;
      checkLossless(*model, requests, options, {1, 4, 16}, 0);
    }
  }
}

ACOER_TEST(speculation_by_tensor_ops) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kDouble, 41);
  GenerateOptions options;
  options.maxSlots = 3;
  options.path = DecodePath::kTensorOps;
  checkLossless(*model, repetitiveRequests(model->spec, {nullptr}), options, {4}, 1e-9);
}

// Sequences in slots take the pages that they need, and proposals what is left.
ACOER_TEST(speculation_in_a_tight_cache) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 44);
  std::vector<GenerateRequest> requests{makeRequest({1, 2, 3}, 6, 190)};
  requests[0].sampling.temperature = 0.1;
  GenerateOptions options;
  options.kvBytes = 5 * 64 * KvCache::bytesPerPosition(model->spec, model->dtype);
  checkLossless(*model, requests, options, {1, 4, 16}, 0);
}

// A step takes no more rows than are worth it: with many sequences nothing is proposed.
ACOER_TEST(speculation_leaves_full_steps_alone) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 45);
  std::vector<GenerateRequest> requests{makeRequest({1, 2, 1, 2, 1, 2}, 16, 30)};
  requests[0].sampling.temperature = 0;
  const Generated got = collect(*model, requests, speculating(4));
  ACOER_CHECK(got.stats.peakSlots == 16);
  ACOER_CHECK(got.stats.proposedTokens == 0);
}

ACOER_TEST(speculation_within_bounds) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 46);
  for (const int64_t tokens : {-1, 17}) {
    ACOER_CHECK_THROWS(collect(*model, {makeRequest({1}, 1, 4)}, speculating(tokens)),
                       ErrorCode::kBadArgument,
                       "numSpeculativeTokens must be from 0 to 16, not " + std::to_string(tokens));
  }
}

// A proposed token has logits of its own, which count only if it is drawn.
ACOER_TEST(speculation_keeps_streams_whole) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 47);
  auto requests = repetitiveRequests(model->spec, {nullptr});
  std::map<SequenceKey, std::vector<int32_t>> streamed;
  GenerateOptions options = speculating(4);
  options.onTokens = [&](NewTokens&& tokens) {
    auto& ids = streamed[{tokens.request, tokens.sample}];
    ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
    ACOER_CHECK(tokens.ids.size() == tokens.logprobs.size());
  };
  options.maxSlots = 2;
  for (const auto& [key, sequence] : collect(*model, requests, options).sequences) {
    ACOER_CHECK(streamed.at(key) == sequence.ids);
  }
}

std::shared_ptr<Model> modelWithKernels(const ModelSpec& spec, at::ScalarType dtype) {
  auto model = randomModel(spec, checkDevice(), dtype, 48);
  model->kernels = kernelsToCheck();
  return model;
}

// Bundles of rows on both sides of a block of attention, fewer rows to a bundle than proposals, and
// penalties, which are the state of a row.
ACOER_TEST(gpu_kernels_speculation) {
  const auto model = modelWithKernels(smallSpec(), at::kFloat);
  const auto adapter = strongAdapter(model, 42);
  std::vector<GenerateRequest> requests;
  for (const int64_t length : {250, 17, 3}) {
    requests.push_back(makeRequest(std::vector<int32_t>(static_cast<size_t>(length), 7), 2, 30,
                                   length == 17 ? adapter.get() : nullptr));
    requests.back().sampling.temperature = length == 250 ? 0 : 0.4;
  }
  requests[1].sampling.repetitionPenalty = 1.01;
  GenerateOptions options;
  options.maxSlots = 4;
  const GraphCounts before = graphCounts();
  checkLossless(*model, requests, options, {5}, 1e-4);
  if (checkDevice().is_cpu()) ACOER_CHECK(graphCounts().replayed > before.replayed);
}

}  // namespace
}  // namespace acoer::check
