// The inside of generate() and decodeArrivals(): admission (admission.cpp), decoding (steps.cpp),
// and the rest (generate.cpp).
#pragma once

#include <chrono>
#include <optional>
#include <unordered_set>

#include "generate/decode.h"
#include "generate/generate.h"
#include "generate/gpu_steps.h"
#include "generate/kept_caches.h"
#include "generate/kv_pages.h"
#include "generate/plan.h"
#include "generate/requests.h"
#include "generate/sampler.h"
#include "generate/speculation.h"

namespace acoer {

using Clock = std::chrono::steady_clock;

inline double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Our CUDA kernels if they decode these requests, else null and the reason, which is empty on a
// CPU.
struct KernelChoice {
  const GpuKernels* kernels = nullptr;
  std::string reason;
};

// The state of one call: which sequences hold a slot, and which prompts wait.
class GenerateRun {
 public:
  // `open`: where more requests come from; null: `requests` are all.
  GenerateRun(const Model& model, const DecoderNeeds& needs, std::vector<GenerateRequest> requests,
              const OpenDecoder* open, const GenerateOptions& options, const OnSequence& onSequence,
              const Cancel& cancel);
  GenerateStats run();

 private:
  // A sequence that is being decoded. Its slot is its index in slots_.
  struct Sequence {
    GeneratedSequence out;
    int64_t policy = 0;
    int32_t nextId = 0;                               // the token the next step feeds
    int64_t nextPosition = 0;                         // and its position
    size_t seenTokens = 0;                            // of out.ids, handed to onTokens
    bool done = false;                                // its tokens are complete
    bool finite = true;                               // the logits of its next token
    std::optional<std::unordered_set<int32_t>> seen;  // only with a repetition penalty
    // With speculation: its text, what is proposed to follow nextId in this step, and with a
    // penalty what has been seen after each of those.
    std::optional<SpeculativeText> text;
    std::vector<int32_t> proposed;
    std::vector<std::unordered_set<int32_t>> seenAfter;
    // The first positions of its prompt, if it shares them. Its pages begin with the next one.
    std::shared_ptr<const KvCache> shared;
    int64_t own(int64_t position) const { return position - (shared ? shared->positions() : 0); }
    // Of a step: its last token and what is proposed after it.
    size_t rows() const { return 1 + proposed.size(); }
  };
  // Prompts prefilled together; their samples enter slots in order.
  struct PrefilledGroup {
    size_t begin = 0, end = 0;  // requests
    size_t request = 0;         // the next to enter
    int64_t sample = 0;
    std::optional<KvCache> cache;  // slot r - begin holds all but the last token of request r
    int64_t positions = 0;         // what the cache takes of the budget
    std::shared_ptr<const KvCache> shared;  // of `request`, once a sample of it has entered
    bool empty() const { return request == end; }
  };
  const GenerateRequest& requestOf(const Sequence& s) const {
    return requests_[static_cast<size_t>(s.out.request)];
  }
  void countGroups(const std::vector<GenerateRequest>& requests);
  bool enoughGroups() const;
  void takeArrivals();
  void checkArrival(const GenerateRequest& request) const;
  void admit(GenerateRequest&& request);
  bool isIdle() const {
    return slots_.empty() && group_.empty() && nextRequest_ == requests_.end();
  }
  // The number that keys the sequence's random numbers.
  uint64_t sampleNumber(const Sequence& s) const {
    return static_cast<uint64_t>(requestOf(s).firstSample) + static_cast<uint64_t>(s.out.sample);
  }
  int64_t sharedOf(const GenerateRequest& request) const;
  KvPages::Claim claimOf(const GenerateRequest& request) const;
  int64_t pageLimit(int64_t held, int64_t shared) const;
  bool admits(const std::vector<KvPages::Claim>& samples, int64_t held, int64_t newlyShared) const;
  int64_t slotOf(const Sequence& sequence) const { return &sequence - slots_.data(); }
  bool prepareGroup();
  void prefillGroup();
  void skipEnded();
  void keepCache(const Sequence& sequence);
  bool enterable();
  Sequence makeSequence();
  std::shared_ptr<const KvCache> sharePrompt(int64_t prompt, int64_t positions);
  void place(Sequence&& sequence, int64_t slot);
  void refill();
  void compact();
  void growCache();
  void step();
  std::vector<int32_t> proposalFor(const Sequence& sequence) const;
  void propose(int64_t limit);
  int64_t groupOf(const GenerateRequest& request, size_t number) const;
  void stepOnHost();
  void stepsApart(int64_t steps);
  void runApart(int64_t begin, int64_t end, int64_t steps);
  void stepOnGpu(int64_t steps);
  int64_t stepsUntilLook() const;
  void chooseRows(int64_t steps);
  void addRows(int64_t slot, DecodeRows& rows, std::vector<DrawRow>& draws) const;
  void append(Sequence& sequence, const Draw& draw) const;
  void acceptStep(std::span<const Draw> draws);
  void acceptRows(Sequence& sequence, std::span<const Draw> draws);
  void deliver(Sequence& sequence);
  bool reportIsDue() const;
  void report(int64_t promptTokens);
  void streamTokens(Sequence& sequence) const;
  void endEarly(Sequence& sequence, FinishReason why);
  void neverStarted(size_t request, int64_t from, FinishReason why);
  void cancelRequest(size_t request);
  void endRest(FinishReason why);

  const Model& model_;
  Requests requests_;
  const OpenDecoder* open_;
  bool closed_;  // no more requests will come
  const GenerateOptions& options_;
  const OnSequence& onSequence_;
  const Cancel& cancel_;
  KernelChoice kernels_;
  KvBudget budget_;
  std::vector<const Policy*> policies_;
  Decoder decoder_;
  KvCache cache_;  // its slots are pages
  KvPages pages_;
  std::unique_ptr<GpuSteps> gpuSteps_;  // with CUDA kernels
  KeptCaches kept_;
  int64_t sharedPositions_ = 0;  // of all shared prompts that are held
  SpeculativeGroups texts_;
  std::vector<Sequence> slots_;
  size_t nextRequest_ = 0;  // the first not yet in a group
  PrefilledGroup group_;
  // The rows of the current step, the slot of each row, and what to draw.
  DecodeRows rows_;
  int64_t pagesPerRow_ = 1;
  std::vector<int64_t> slotOfRow_;
  std::vector<DrawRow> draws_;
  GenerateStats stats_;
  int64_t ended_ = 0;
  std::vector<int64_t> samplesLeft_;  // of each group, with completeGroups
  Clock::time_point reported_ = Clock::now();
};

}  // namespace acoer
