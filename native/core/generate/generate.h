// Sampling: each prompt is prefilled once, decode slots are batched continuously, and noise is
// counter-based.
#pragma once

#include <functional>
#include <variant>

#include "base/error.h"
#include "generate/decode_ops.h"
#include "generate/sampler.h"

namespace acoer {

// `numSamples` sequences from one prompt. Sample s draws its token at position t (0 = first new
// token) from Philox(key = seed, counter = (firstSample + s, firstToken + t)), so the batch cannot
// change a draw.
struct GenerateRequest {
  std::vector<int32_t> promptIds;
  int64_t numSamples = 1;
  int64_t firstSample = 0;
  // Tokens drawn before, by an earlier call; they end the prompt. Draws go on from there.
  int64_t firstToken = 0;
  uint64_t seed = 0;
  int64_t maxNewTokens = 512;
  std::vector<int32_t> stopIds;
  SamplingOptions sampling;
  const Policy* policy = nullptr;  // null: the base
  bool streams = true;             // whether its tokens go to onTokens
  int64_t group = 0;               // to which its samples belong, for `completeGroups`
};

// How far a generate() call has come, as the host knows it: on a GPU it looks every kStepsPerLook
// tokens.
struct GenerateProgress {
  int64_t ended = 0, total = 0;  // sequences; those that ended have been delivered
  int64_t promptTokens = 0;      // prefilled; on a GPU that work may only have been started
  // For each sequence being decoded: request, sample, number of new tokens.
  std::vector<int32_t> inFlight;
};

// Tokens that a sequence has made since the last ones that were handed out.
struct NewTokens {
  int64_t request = 0;
  int64_t sample = 0;
  std::vector<int32_t> ids;
  std::vector<double> logprobs;
};

struct GenerateOptions {
  int64_t maxSlots = 64;  // most sequences decoded together; kvBytes may allow fewer
  int64_t kvBytes = 0;    // limit of the KV cache; 0: a share of the free memory
  KvCacheDtype kvCacheDtype = KvCacheDtype::kAuto;
  DecodePath path = DecodePath::kAuto;
  // Most tokens that are proposed for a sequence in a step (speculation.h); 0: none. They change
  // how many steps a sequence takes and nothing of what is drawn.
  int64_t numSpeculativeTokens = 0;
  // Not empty: the call ends when, for every i, at least completeGroups[i] of the groups 0 .. i are
  // complete; one without requests is from the start. What is unfinished then is delivered with
  // kPartial. When that is depends on maxSlots and on the room in the cache, but not on time.
  std::vector<int64_t> completeGroups = {};
  // Called on the thread of the call after a step, or a layer of a prefill, but at most every
  // progressEveryMs, and not once the call is cancelled. Empty: nobody is told.
  std::function<void(GenerateProgress&&)> onProgress = nullptr;
  double progressEveryMs = 250;
  // Called on the same thread when the host has seen new tokens of a sequence, before the sequence
  // itself is handed out. Empty: sequences are handed out whole only.
  std::function<void(NewTokens&&)> onTokens = nullptr;
};

enum class FinishReason { kStop, kLength, kCancelled, kPartial };

struct GeneratedSequence {
  int64_t request = 0;
  int64_t sample = 0;
  std::vector<int32_t> ids;  // the new tokens, including the stop id
  // log-softmax(logits / temperature) of each token, before top-k, top-p, min-p and penalty.
  std::vector<double> logprobs;
  std::vector<double> entropies;  // of the same distribution
  FinishReason finish = FinishReason::kStop;
};

using OnSequence = std::function<void(GeneratedSequence&&)>;

struct GenerateStats {
  int64_t promptTokens = 0;  // prefilled, each prompt once
  int64_t keptTokens = 0;    // of prompts, taken from caches that were kept instead
  int64_t newTokens = 0;
  int64_t decodeSteps = 0;
  int64_t proposedTokens = 0;  // computed beside the token before them
  int64_t acceptedTokens = 0;  // of those, the ones that were drawn
  int64_t peakSlots = 0;
  double prefillMs = 0;
  double decodeMs = 0;
  // Why our CUDA kernels, or graphs of them, did not decode on a GPU; empty if they did, and on a
  // CPU.
  std::string fallback;
};

// Calls onSequence on this thread as each sequence ends. After a cancel request, every unfinished
// sequence is delivered with kCancelled and the tokens it has, and the call returns normally.
// Throws kBadArgument naming the request and the field, kNotFinite with the place of the token.
GenerateStats generate(const Model& model, const std::vector<GenerateRequest>& requests,
                       const GenerateOptions& options, const OnSequence& onSequence,
                       const Cancel& cancel);

// What has come to an open decoder since it asked last.
struct Arrivals {
  // Numbered on from those before, the first is 0; an error: why there is no such request.
  std::vector<std::variant<GenerateRequest, EngineError>> requests;
  std::vector<int64_t> cancelled;  // numbers of requests that are to end
  bool closed = false;             // nothing more will come
};

// A decoder that takes requests while it decodes others.
struct OpenDecoder {
  std::vector<const Policy*> policies;  // that requests may name; null: the base
  int64_t positions = 0;                // most of a request: its prompt and its new tokens
  int64_t keepBytes = 0;                // for caches of ended sequences, which prompts may continue
  std::function<void()> onOpen = nullptr;  // called once there is room
  // Called before every step; waits for something to come if there is nothing to `decode`.
  std::function<Arrivals(bool wait)> arrivals = nullptr;
  std::function<void(int64_t request, const EngineError& why)> onRefused = nullptr;
};

// The most stop ids of a request to an open decoder.
constexpr int64_t kMostStopIds = 64;

constexpr int64_t kMostSpeculativeTokens = 16;

// Runs until the decoder is closed and all its requests have ended, in every other way like
// generate(), which gives the same tokens. A request that is not allowed is refused and the others
// go on.
GenerateStats decodeArrivals(const Model& model, const OpenDecoder& open,
                             const GenerateOptions& options, const OnSequence& onSequence,
                             const Cancel& cancel);

}  // namespace acoer
