// An open decoder: requests that arrive, end early or are refused while others decode, and caches
// that are kept.
#include "emulated_gpu.h"
#include "generate/kv_cache.h"
#include "generate_support.h"

namespace acoer::check {
namespace {

struct Decoded {
  Generated generated;
  std::map<SequenceKey, std::vector<int32_t>> streamed;
  std::map<int64_t, std::string> refused;
};

// What each look of the decoder finds; it is closed after the last one.
using Turns = std::vector<Arrivals>;

Decoded decodeTurns(const Model& model, OpenDecoder open, const Turns& turns,
                    GenerateOptions options = {}) {
  Decoded decoded;
  size_t turn = 0;
  bool opened = false;
  open.onOpen = [&] { opened = true; };
  open.arrivals = [&](bool) {
    ACOER_CHECK(opened);
    Arrivals arrivals = turn < turns.size() ? turns[turn] : Arrivals{};
    arrivals.closed = ++turn >= turns.size();
    return arrivals;
  };
  open.onRefused = [&](int64_t request, const EngineError& error) {
    ACOER_CHECK(error.code() == ErrorCode::kBadArgument);
    ACOER_CHECK(decoded.refused.emplace(request, error.what()).second);
  };
  options.onTokens = [&](NewTokens&& tokens) {
    ACOER_CHECK(tokens.ids.size() == tokens.logprobs.size());
    auto& all = decoded.streamed[{tokens.request, tokens.sample}];
    all.insert(all.end(), tokens.ids.begin(), tokens.ids.end());
  };
  const Cancel cancel;
  decoded.generated.stats = decodeArrivals(
      model, open, options,
      [&](GeneratedSequence&& sequence) {
        const SequenceKey key{sequence.request, sequence.sample};
        ACOER_CHECK(decoded.streamed[key] == sequence.ids);
        ACOER_CHECK(decoded.generated.sequences.emplace(key, std::move(sequence)).second);
      },
      cancel);
  return decoded;
}

std::vector<GenerateRequest> someRequests(const Model& model, const Policy* policy) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 7; ++i) {
    requests.push_back(makeRequest(randomIds(model.spec, static_cast<int64_t>(1 + 9 * i), i),
                                   1 + i % 3, 9 + 6 * static_cast<int64_t>(i),
                                   i % 2 == 0 ? policy : nullptr));
    requests.back().seed = 50 + i;
    requests.back().stopIds = {3, static_cast<int32_t>(5 + i)};
    if (i % 3 == 1) requests.back().sampling = {.temperature = 0.9, .repetitionPenalty = 1.2};
  }
  return requests;
}

// Two at once, then one at every third look.
Turns spread(const std::vector<GenerateRequest>& requests) {
  Turns turns(3 * requests.size());
  for (size_t i = 0; i < requests.size(); ++i)
    turns[i < 2 ? 0 : 3 * i].requests.push_back(requests[i]);
  return turns;
}

void checkEqual(const Generated& got, const Generated& want, double bound, size_t mayDiffer) {
  ACOER_CHECK(got.sequences.size() == want.sequences.size());
  size_t different = 0;
  for (const auto& [key, sequence] : want.sequences) {
    const GeneratedSequence& other = got.sequences.at(key);
    if (other.ids != sequence.ids && ++different <= mayDiffer) continue;
    checkSame(other, sequence, bound);
  }
}

void checkArrivals(const Model& model, const Policy* policy, DecodePath path,
                   const std::vector<int64_t>& slots, double bound, size_t mayDiffer) {
  const auto requests = someRequests(model, policy);
  for (int64_t maxSlots : slots) {
    GenerateOptions options;
    options.maxSlots = maxSlots;
    options.path = path;
    const Generated closed = collect(model, requests, options, path);
    const OpenDecoder open{.policies = {nullptr, policy}, .positions = 128};
    const Decoded decoded = decodeTurns(model, open, spread(requests), options);
    ACOER_CHECK(decoded.refused.empty());
    checkEqual(decoded.generated, closed, bound, mayDiffer);
    ACOER_CHECK(decoded.generated.stats.promptTokens == closed.stats.promptTokens);
    ACOER_CHECK(decoded.generated.stats.keptTokens == 0);
  }
}

ACOER_TEST(generate_takes_arrivals) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 31);
  const auto policy = strongAdapter(model, 32);
  checkArrivals(*model, policy.get(), DecodePath::kAuto, {2, 16}, 0, 0);
  checkArrivals(*model, policy.get(), DecodePath::kTensorOps, {16}, 1e-5, 0);
}

std::shared_ptr<Model> modelForKernels() {
  ModelSpec spec = tinySpec();
  spec.headDim = 64;
  auto model = randomModel(spec, checkDevice(), at::kFloat, 33);
  model->kernels = kernelsToCheck();
  return model;
}

ACOER_TEST(gpu_kernels_take_arrivals) {
  const auto model = modelForKernels();
  const auto policy = strongAdapter(model, 34);
  checkArrivals(*model, policy.get(), DecodePath::kAuto, {3}, 1e-4, 1);
}

void checkCancelled(const Model& model) {
  const auto requests = someRequests(model, nullptr);
  Turns turns = spread(requests);
  turns[2].cancelled = {1, 6, 99};  // in a slot or waiting for one; not there yet; never there
  turns[13].cancelled = {4, 0};
  turns[20].cancelled = {5, 6};
  GenerateOptions options;
  options.maxSlots = 3;
  const Generated closed = collect(model, requests, options);
  const Decoded decoded =
      decodeTurns(model, {.policies = {nullptr}, .positions = 128}, turns, options);
  ACOER_CHECK(decoded.generated.sequences.size() == closed.sequences.size());
  size_t cancelled = 0;
  for (const auto& [key, sequence] : closed.sequences) {
    const GeneratedSequence& other = decoded.generated.sequences.at(key);
    if (other.finish != FinishReason::kCancelled) {
      ACOER_CHECK(other.ids == sequence.ids);
      continue;
    }
    cancelled += 1;
    ACOER_CHECK(other.ids.size() <= sequence.ids.size());
    ACOER_CHECK(std::equal(other.ids.begin(), other.ids.end(), sequence.ids.begin()));
  }
  ACOER_CHECK(cancelled > 0);
  ACOER_CHECK(cancelled < closed.sequences.size());
}

ACOER_TEST(generate_cancels_one_request) {
  checkCancelled(*randomModel(tinySpec(), at::kCPU, at::kFloat, 35));
}
ACOER_TEST(gpu_kernels_cancel_one_request) { checkCancelled(*modelForKernels()); }

ACOER_TEST(generate_refuses_what_an_open_decoder_cannot_take) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 36);
  const auto policy = strongAdapter(model, 37);
  const auto fine = makeRequest(randomIds(model->spec, 5, 1), 1, 20);
  auto tooLong = fine, unknown = fine, stops = fine, wrong = fine, empty = fine;
  tooLong.maxNewTokens = 60;
  unknown.policy = policy.get();
  stops.stopIds.assign(kMostStopIds + 1, 1);
  wrong.sampling.topP = 0;
  empty.promptIds.clear();
  Turns turns(4);
  turns[0].requests = {tooLong, fine, unknown};
  turns[2].requests = {stops, wrong, fine, empty};
  const Decoded decoded = decodeTurns(*model, {.policies = {nullptr}, .positions = 64}, turns);
  ACOER_CHECK(decoded.refused.size() == 5);
  for (const auto& [request, part] : std::map<int64_t, const char*>{
           {0, "positions"}, {2, "policy"}, {3, "stopIds"}, {4, "topP"}, {6, "promptIds"}}) {
    const std::string& message = decoded.refused.at(request);
    ACOER_CHECK(message.find("request " + std::to_string(request)) != std::string::npos);
    ACOER_CHECK(message.find(part) != std::string::npos);
  }
  const Generated closed = collect(*model, {fine});
  for (int64_t request : {1, 5}) {
    ACOER_CHECK(decoded.generated.sequences.at({request, 0}).ids ==
                closed.sequences.at({0, 0}).ids);
  }
}

// The next turn of a conversation: all of the last one, and some more.
GenerateRequest nextTurn(const ModelSpec& spec, GenerateRequest turn, const GeneratedSequence& said,
                         int64_t more) {
  turn.promptIds.insert(turn.promptIds.end(), said.ids.begin(), said.ids.end());
  const auto rest = randomIds(spec, more, 77);
  turn.promptIds.insert(turn.promptIds.end(), rest.begin(), rest.end());
  return turn;
}

// `more` new tokens in each turn: more than extend() takes at a time, and none.
void checkKept(const Model& model, const Policy* policy, int64_t samples, int64_t more,
               double bound, KvCacheDtype kept = KvCacheDtype::kAuto) {
  const int64_t bytes = KvCache::bytesPerPosition(model.spec, elementType(kept, model.dtype));
  const GenerateOptions options{.kvCacheDtype = kept};
  const auto first = makeRequest(randomIds(model.spec, 30, 5), samples, 12, policy);
  const Generated said = collect(model, {first}, options);
  const auto second = nextTurn(model.spec, first, said.sequences.at({0, samples - 1}), more);
  const auto whole = collect(model, {second}, options);
  for (int64_t keptPositions : {0, 1024}) {
    Turns turns(80);
    turns[0].requests = {first};
    turns[60].requests = {second};
    const OpenDecoder open{
        .policies = {nullptr, policy}, .positions = 256, .keepBytes = keptPositions * bytes};
    const Decoded decoded = decodeTurns(model, open, turns, options);
    const GenerateStats& stats = decoded.generated.stats;
    // All but the last token of the first turn, or of the second prompt, is there.
    const int64_t there = 30 + 12 - 1;
    ACOER_CHECK(stats.keptTokens == (keptPositions == 0 ? 0 : there));
    ACOER_CHECK(stats.keptTokens + stats.promptTokens == 30 + (30 + 12 + more));
    for (int64_t s = 0; s < samples; ++s) {
      checkSame(decoded.generated.sequences.at({1, s}), whole.sequences.at({0, s}), bound);
    }
  }
}

ACOER_TEST(generate_continues_what_was_kept) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto model = randomModel(tinySpec(), at::kCPU, dtype, 38);
    const auto policy = strongAdapter(model, 39);
    for (const Policy* used :
         {static_cast<const Policy*>(nullptr), static_cast<const Policy*>(policy.get())}) {
      // Prompts of up to 128 tokens are attended over the cache in both ways: bit for bit.
      checkKept(*model, used, 1, 0, 0);
      checkKept(*model, used, 3, 70, 0);
      checkKept(*model, used, 2, 150, 1e-4);
      checkKept(*model, used, 1, 0, 0, KvCacheDtype::kInt8);
      checkKept(*model, used, 3, 70, 0, KvCacheDtype::kInt8);
      // In blocks, too, a prompt attends over what the cache holds.
      if (dtype == at::kDouble) checkKept(*model, used, 2, 150, 1e-9, KvCacheDtype::kInt8);
    }
  }
}

ACOER_TEST(gpu_kernels_continue_what_was_kept) {
  const auto model = modelForKernels();
  const auto policy = strongAdapter(model, 40);
  checkKept(*model, policy.get(), 1, 0, 1e-4);
  checkKept(*model, policy.get(), 2, 70, 1e-4);
}

// What is kept never takes more than it may: the one used longest ago gives way.
ACOER_TEST(generate_keeps_within_its_bytes) {
  const auto model = randomModel(tinySpec(), at::kCPU, at::kFloat, 41);
  const int64_t bytes = KvCache::bytesPerPosition(model->spec, model->dtype);
  const auto a = makeRequest(randomIds(model->spec, 40, 6), 1, 4);
  const auto b = makeRequest(randomIds(model->spec, 40, 7), 1, 4);
  Turns turns(60);
  turns[0].requests = {a};
  turns[15].requests = {b};
  turns[30].requests = {a};  // gone: there is room for one
  turns[45].requests = {a};
  const OpenDecoder open{.policies = {nullptr}, .positions = 64, .keepBytes = 48 * bytes};
  const Decoded decoded = decodeTurns(*model, open, turns);
  ACOER_CHECK(decoded.generated.stats.keptTokens == 39);
}

}  // namespace
}  // namespace acoer::check
