// Scheduling: a sequence must not depend on the batch it is decoded in.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "generate/kv_cache.h"
#include "generate_support.h"

namespace acoer::check {
namespace {

// Prompts of many lengths; stop ids make sequences end at different times.
std::vector<GenerateRequest> raggedRequests(const ModelSpec& spec,
                                            const std::vector<const Policy*>& policies) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 9; ++i) {
    GenerateRequest request = makeRequest(randomIds(spec, static_cast<int64_t>(1 + 7 * i), i),
                                          1 + i % 4, 30 + 5 * i, policies[i % policies.size()]);
    request.stopIds = {1, 2, static_cast<int32_t>(3 + i)};
    request.seed = 100 + i;
    request.firstSample = static_cast<int64_t>(i);
    if (i % 3 == 1) request.sampling = {.temperature = 0.8, .topP = 0.9, .repetitionPenalty = 1.1};
    requests.push_back(request);
  }
  return requests;
}

ACOER_TEST(generate_batch_does_not_show) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 21);
  const auto first = strongAdapter(model, 22), second = strongAdapter(model, 23);
  const auto full = changedCopy(model, 24), otherFull = changedCopy(model, 25);
  const auto requests = raggedRequests(
      model->spec, {nullptr, first.get(), full.get(), second.get(), otherFull.get()});
  const auto kinds = {std::pair(DecodePath::kAuto, KvCacheDtype::kAuto),
                      {DecodePath::kTensorOps, KvCacheDtype::kAuto},
                      {DecodePath::kAuto, KvCacheDtype::kInt8}};
  for (const auto& [path, kept] : kinds) {
    const double bound = path == DecodePath::kAuto ? 0 : 1e-5;  // our own kernels: bit for bit
    std::map<SequenceKey, GeneratedSequence> reference;
    for (size_t r = 0; r < requests.size(); ++r) {
      for (int64_t s = 0; s < requests[r].numSamples; ++s) {
        reference[{r, s}] = alone(*model, requests[r], s, path, kept);
      }
    }
    for (int64_t maxSlots : {1, 3, 8, 64}) {
      GenerateOptions options;
      options.maxSlots = maxSlots;
      options.kvCacheDtype = kept;
      const Generated generated = collect(*model, requests, options, path);
      ACOER_CHECK(generated.stats.peakSlots == std::min<int64_t>(maxSlots, 21));
      for (const auto& [key, sequence] : generated.sequences) {
        checkSame(sequence, reference.at(key), bound);
      }
    }
  }
}

// The probability of all ids below 0, 1, ... after `ids`, at temperature 1 without filters.
at::Tensor cumulative(const Model& model, std::vector<int32_t> ids) {
  PackedSequences prefix;
  prefix.offsets = {0, static_cast<int64_t>(ids.size())};
  prefix.promptLengths = {1};
  prefix.ids = std::move(ids);
  const at::Tensor hidden_TD = hiddenStates(model, nullptr, prefix);
  const at::Tensor p_V = at::matmul(model.weights.head_VD.plain(), hidden_TD[-1]).softmax(0);
  return p_V.cumsum(0) - p_V;
}

// Equal up to rounding, which may move the border between two tokens across the number that is
// drawn. So at the first ids that differ, that number must lie on the border between them as
// `exact` computes it; later tokens have different contexts. For draws at temperature 1 without
// filters.
void checkSameToRounding(const Model& exact, const GenerateRequest& request,
                         const GeneratedSequence& a, const GeneratedSequence& b, double bound) {
  const size_t shared = std::min(a.ids.size(), b.ids.size());
  for (size_t t = 0; t < shared; ++t) {
    if (a.ids[t] != b.ids[t]) {
      std::vector<int32_t> ids = request.promptIds;
      ids.insert(ids.end(), a.ids.begin(), a.ids.begin() + static_cast<std::ptrdiff_t>(t));
      const at::Tensor below_V = cumulative(exact, std::move(ids));
      const auto [low, high] = std::minmax(a.ids[t], b.ids[t]);
      const double drawn =
          samplerUniform(request.seed, static_cast<uint64_t>(request.firstSample), t);
      // Log-probs that are off by `bound` move a sum of probabilities by no more than that.
      ACOER_CHECK_LE(std::abs(below_V[low + 1].item<double>() - drawn), bound);
      ACOER_CHECK_LE(std::abs(below_V[high].item<double>() - drawn), bound);
      return;
    }
    ACOER_CHECK_LE(std::abs(a.logprobs[t] - b.logprobs[t]), bound);
    ACOER_CHECK_LE(std::abs(a.entropies[t] - b.entropies[t]), bound);
  }
  ACOER_CHECK(a.ids.size() == b.ids.size());
  ACOER_CHECK(a.finish == b.finish);
}

// In fp32 with library products (the model is too large to be packed), whose order of summation may
// depend on the number of rows. Either lies near what float64 gives.
ACOER_TEST(generate_batch_does_not_show_large_fp32) {
  ModelSpec spec = smallSpec();
  spec.hiddenSize = 1024;
  spec.intermediateSize = 2048;
  const auto model = randomModel(spec, at::kCPU, at::kFloat, 26);
  const auto exact = randomModel(spec, at::kCPU, at::kDouble, 26);
  ACOER_CHECK(model->bytes > (int64_t{64} << 20));
  const auto requests = raggedRequests(spec, {nullptr});
  const Generated together = collect(*model, requests);
  for (size_t r = 0; r < requests.size(); r += 3) {
    const GeneratedSequence single = alone(*model, requests[r], 0, DecodePath::kAuto);
    const auto& other = together.sequences.at({static_cast<int64_t>(r), 0});
    const GeneratedSequence exactly = alone(*exact, requests[r], 0, DecodePath::kAuto);
    checkSameToRounding(*exact, requests[r], single, exactly, 1e-5);
    checkSameToRounding(*exact, requests[r], other, exactly, 1e-5);
  }
}

ACOER_TEST(generate_kv_budget) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 27);
  const int64_t perPosition = KvCache::bytesPerPosition(model->spec, at::kFloat);
  ACOER_CHECK(perPosition == 2 * 3 * 2 * 32 * 4);
  std::vector<GenerateRequest> requests{makeRequest(randomIds(model->spec, 20, 1), 6, 100),
                                        makeRequest(randomIds(model->spec, 200, 2), 3, 40),
                                        makeRequest(randomIds(model->spec, 5, 3), 4, 250)};
  const Generated free = collect(*model, requests);
  ACOER_CHECK(free.stats.peakSlots == 13);
  // The long prompt takes 208 positions, and each of its samples up to 240, which may begin and end
  // within pages of 64.
  GenerateOptions options;
  options.kvBytes = (208 + 240 + 48) * perPosition;
  const Generated tight = collect(*model, requests, options);
  ACOER_CHECK(tight.stats.peakSlots == 3);
  for (const auto& [key, sequence] : tight.sequences) {
    checkSame(sequence, free.sequences.at(key), 0);
  }
  ACOER_CHECK(tight.stats.promptTokens == 225);
  ACOER_CHECK(tight.stats.newTokens == 6 * 100 + 3 * 40 + 4 * 250);
  options.kvBytes = (208 + 240 + 47) * perPosition;
  ACOER_CHECK_THROWS(collect(*model, requests, options), ErrorCode::kBadArgument,
                     "request 1: its KV cache takes 761856 bytes");
}

// What a sequence and its prompt take is enough, where it lies in one piece and where in pages.
ACOER_TEST(generate_kv_budget_of_one) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 27);
  const GenerateRequest request = makeRequest(randomIds(model->spec, 200, 2), 1, 121);
  for (const DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
    GenerateOptions options;
    options.kvBytes = (320 + 208) * KvCache::bytesPerPosition(model->spec, at::kFloat);
    ACOER_CHECK(collect(*model, {request}, options, path).stats.newTokens == 121);
    options.kvBytes -= 1;
    ACOER_CHECK_THROWS(collect(*model, {request}, options, path), ErrorCode::kBadArgument,
                       "request 0: its KV cache takes");
  }
}

ACOER_TEST(generate_stop_and_length) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 28);
  GenerateRequest request = makeRequest(randomIds(model->spec, 10, 1), 4, 50);
  const Generated whole = collect(*model, {request});
  for (const auto& [key, sequence] : whole.sequences) {
    ACOER_CHECK(sequence.finish == FinishReason::kLength && sequence.ids.size() == 50);
  }
  const std::vector<int32_t>& ids = whole.sequences.at({0, 2}).ids;
  request.stopIds = {ids[20]};
  const auto first = std::find(ids.begin(), ids.end(), ids[20]);
  const GeneratedSequence stopped = collect(*model, {request}).sequences.at({0, 2});
  ACOER_CHECK(stopped.finish == FinishReason::kStop);
  ACOER_CHECK(stopped.ids == std::vector<int32_t>(ids.begin(), first + 1));
}

// Cancelled from within the callback: nothing is lost and nothing throws.
ACOER_TEST(generate_cancel) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 29);
  std::vector<GenerateRequest> requests{makeRequest(randomIds(model->spec, 4, 1), 2, 10),
                                        makeRequest(randomIds(model->spec, 6, 2), 3, 500),
                                        makeRequest(randomIds(model->spec, 8, 3), 5, 500)};
  GenerateOptions options;
  options.maxSlots = 4;
  Cancel cancel;
  std::map<SequenceKey, GeneratedSequence> got;
  const GenerateStats stats = generate(
      *model, requests, options,
      [&](GeneratedSequence&& sequence) {
        cancel.request();
        ACOER_CHECK(got.emplace(SequenceKey{sequence.request, sequence.sample}, sequence).second);
      },
      cancel);
  ACOER_CHECK(got.size() == 10);
  const Generated whole = collect(*model, requests);
  int64_t tokens = 0;
  for (const auto& [key, sequence] : got) {
    const bool ended = key.first == 0;
    ACOER_CHECK(sequence.finish == (ended ? FinishReason::kLength : FinishReason::kCancelled));
    const auto& ids = whole.sequences.at(key).ids;
    ACOER_CHECK(sequence.ids.size() == (key.first == 2 || key.second == 2 ? 0 : 10));
    ACOER_CHECK(std::equal(sequence.ids.begin(), sequence.ids.end(), ids.begin()));
    tokens += static_cast<int64_t>(sequence.ids.size());
  }
  ACOER_CHECK(stats.newTokens == tokens);

  Cancel before;
  before.request();
  int64_t count = 0;
  generate(
      *model, requests, options,
      [&](GeneratedSequence&& sequence) {
        ACOER_CHECK(sequence.finish == FinishReason::kCancelled && sequence.ids.empty());
        count += 1;
      },
      before);
  ACOER_CHECK(count == 10);
}

ACOER_TEST(generate_bad_arguments) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 30);
  const auto other = strongAdapter(randomModel(tinySpec(), at::kCPU, at::kFloat, 31), 1);
  auto refused = [&](const std::function<void(GenerateRequest&)>& change, const std::string& part) {
    std::vector<GenerateRequest> requests(2, makeRequest({1, 2, 3}, 1, 5));
    change(requests[1]);
    ACOER_CHECK_THROWS(collect(*model, requests), ErrorCode::kBadArgument, "request 1: " + part);
  };
  refused([](auto& r) { r.promptIds.clear(); }, "promptIds is empty");
  refused([](auto& r) { r.promptIds[2] = 64; },
          "promptIds[2] is token id 64; the model's vocabulary has 64 tokens");
  refused([](auto& r) { r.stopIds = {-1}; }, "stopIds[0] is token id -1");
  refused([](auto& r) { r.numSamples = 0; }, "numSamples must be at least 1 and below 2^31, not 0");
  refused([](auto& r) { r.numSamples = int64_t{1} << 31; },
          "numSamples must be at least 1 and below 2^31, not 2147483648");
  refused([](auto& r) { r.firstSample = -1; },
          "firstSample must be at least 0 and below 2^31, not -1");
  refused([](auto& r) { r.maxNewTokens = 0; }, "maxNewTokens must be at least 1, not 0");
  refused([](auto& r) { r.maxNewTokens = 2046; },
          "a prompt of 3 tokens and maxNewTokens 2046 exceed");
  refused([](auto& r) { r.sampling.temperature = -1; },
          "temperature must be 0 (greedy) or a positive number, not -1");
  refused([](auto& r) { r.sampling.temperature = std::nan(""); },
          "temperature must be 0 (greedy) or a positive number, not nan");
  refused([](auto& r) { r.sampling.topK = -2; }, "topK must be 0 (off) or positive, not -2");
  refused([](auto& r) { r.sampling.topP = 0; }, "topP must be above 0 and at most 1, not 0");
  refused([](auto& r) { r.sampling.topP = 1.5; }, "topP must be above 0 and at most 1, not 1.5");
  refused([](auto& r) { r.sampling.minP = -0.1; }, "minP must be from 0 to 1, not -0.1");
  refused([](auto& r) { r.sampling.repetitionPenalty = 0; },
          "repetitionPenalty must be above 0 and finite, not 0");
  refused([&](auto& r) { r.policy = other.get(); }, "the policy belongs to another model");
  GenerateOptions none;
  none.maxSlots = 0;
  ACOER_CHECK_THROWS(collect(*model, {}, none), ErrorCode::kBadArgument,
                     "maxSlots must be at least 1, not 0");
  ACOER_CHECK(collect(*model, {}).stats.decodeSteps == 0);
}

ACOER_TEST(generate_refuses_non_finite_logits) {
  for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
    const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 32);
    model->weights.finalNorm_D[5] = std::numeric_limits<double>::quiet_NaN();
    std::vector<GenerateRequest> requests{makeRequest({1, 2, 3}, 1, 5)};
    ACOER_CHECK_THROWS(collect(*model, requests, {}, path), ErrorCode::kNotFinite,
                       "request 0, sample 0 are not finite at new token 0");
  }
}

// Programs get the place of the failure as data, not only in the message.
ACOER_TEST(generate_places_non_finite_logits) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 32);
  const auto adapter = strongAdapter(model, 5);
  adapter->parameters[0].value.fill_(std::numeric_limits<double>::quiet_NaN());
  std::optional<Place> place;
  try {
    collect(*model, {makeRequest({1, 2, 3}, 2, 5), makeRequest({4, 5}, 2, 5, adapter.get())});
  } catch (const EngineError& error) {
    place = error.place();
  }
  ACOER_CHECK(place && place->request == 1 && place->sample == 0 && place->token == 0);
}

// Grad mode is up to the caller: generate() neither records a graph nor changes the mode.
ACOER_TEST(generate_leaves_grad_mode) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 33);
  const auto adapter = strongAdapter(model, 34);
  const auto full = changedCopy(model, 35);
  const c10::AutoGradMode on(true);
  for (DecodePath path : {DecodePath::kAuto, DecodePath::kTensorOps}) {
    collect(*model,
            {makeRequest({1, 2, 3}, 2, 5, adapter.get()), makeRequest({1, 2}, 2, 5, full.get())},
            {}, path);
  }
  ACOER_CHECK(c10::GradMode::is_enabled());
}

}  // namespace
}  // namespace acoer::check
