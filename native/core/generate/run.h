// The inside of generate() and decodeArrivals(): admission (admission.cpp) and decoding
// (generate.cpp).
#pragma once

#include <chrono>
#include <optional>
#include <unordered_set>

#include "generate/decode.h"
#include "generate/generate.h"
#include "generate/gpu_steps.h"
#include "generate/kept_caches.h"
#include "generate/plan.h"
#include "generate/requests.h"
#include "generate/sampler.h"

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
    // The first positions of its prompt, if it shares them. Its slot begins with the next one.
    std::shared_ptr<const KvCache> shared;
    int64_t own(int64_t position) const { return position - (shared ? shared->positions() : 0); }
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
  // What sequences need of the cache, in positions.
  struct Demand {
    int64_t sequences = 0;
    int64_t longest = 0;     // of the longest one
    int64_t longestOwn = 0;  // of the longest one without what it shares
    int64_t shared = 0;      // of all prompts that are shared
  };

  const GenerateRequest& requestOf(const Sequence& s) const {
    return requests_[static_cast<size_t>(s.out.request)];
  }
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
  Demand demandWith(Demand demand, const GenerateRequest& request, int64_t samples,
                    bool addsShared) const;
  Demand liveDemand() const;
  bool fits(const Demand& demand, int64_t held) const;
  int64_t longestOwnLive() const;
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
  void ensureCapacity(int64_t slots, int64_t positions);
  void step();
  void stepOnHost();
  void stepsApart();
  void runApart(int64_t begin, int64_t end, int64_t steps);
  void stepOnGpu();
  void orderRows();
  void addRow(const Sequence& sequence, int64_t slot, DecodeRows& rows,
              std::vector<DrawRow>& draws) const;
  void append(Sequence& sequence, const Draw& draw) const;
  void accept(Sequence& sequence, const Draw& draw);
  void deliver(Sequence& sequence);
  bool reportIsDue() const;
  void report(int64_t promptTokens);
  void streamTokens(Sequence& sequence) const;
  void endEarly(Sequence& sequence);
  void neverStarted(size_t request, int64_t from);
  void cancelRequest(size_t request);
  void cancelRest();

  const Model& model_;
  Requests requests_;
  const OpenDecoder* open_;
  bool closed_;  // no more requests will come
  const GenerateOptions& options_;
  const OnSequence& onSequence_;
  const Cancel& cancel_;
  KvBudget budget_;
  std::vector<const Policy*> policies_;
  KernelChoice kernels_;
  Decoder decoder_;
  KvCache cache_;
  std::unique_ptr<GpuSteps> gpuSteps_;  // with CUDA kernels
  KeptCaches kept_;
  int64_t sharedPositions_ = 0;  // of all shared prompts that are held
  std::vector<Sequence> slots_;
  size_t nextRequest_ = 0;  // the first not yet in a group
  PrefilledGroup group_;
  // The rows of the current step, the slot of each row, and what to draw.
  DecodeRows rows_;
  std::vector<int64_t> slotOfRow_;
  std::vector<DrawRow> draws_;
  GenerateStats stats_;
  int64_t ended_ = 0;
  Clock::time_point reported_ = Clock::now();
};

}  // namespace acoer
