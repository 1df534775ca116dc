// The state of one generate() call: which sequences hold a slot, which prompts wait.
#pragma once

#include <deque>
#include <optional>
#include <unordered_set>

#include "decode.h"
#include "generate_plan.h"
#include "sampler.h"

namespace acoer {

// generate() on a chosen path; generate() itself takes kAuto.
GenerateStats generateOn(DecodePath path, const Model& model,
                         const std::vector<GenerateRequest>& requests,
                         const GenerateOptions& options,
                         const std::function<void(GeneratedSequence&&)>& onSequence,
                         const Cancel& cancel);

class GenerateRun {
 public:
  GenerateRun(const Model& model, const std::vector<GenerateRequest>& requests,
              const GenerateOptions& options,
              const std::function<void(GeneratedSequence&&)>& onSequence, const Cancel& cancel,
              DecodePath path);
  GenerateStats run();

 private:
  // A sequence in its slot (its index in slots_).
  struct Sequence {
    GeneratedSequence out;
    int64_t policy = 0;
    int32_t nextId = 0;        // the token the next step feeds
    int64_t nextPosition = 0;  // and its position
    bool done = false;
    std::optional<std::unordered_set<int32_t>> seen;  // with a repetition penalty
  };
  // Prompts prefilled together; samples enter from it in order.
  struct PrefilledGroup {
    size_t begin = 0, end = 0;  // requests
    size_t request = 0;         // the next to enter
    int64_t sample = 0;
    std::optional<KvCache> cache;  // slot r - begin holds all but the last token of request r
    int64_t positions = 0;         // that cache counts in the budget
    bool empty() const { return request == end; }
  };

  const GenerateRequest& requestOf(const Sequence& s) const {
    return requests_[static_cast<size_t>(s.out.request)];
  }
  bool fits(int64_t live, int64_t longest, int64_t held) const;
  int64_t liveCount() const;
  int64_t longestLive() const;
  bool prepareGroup();
  void prefillGroup();
  bool enterable();
  Sequence makeSequence();
  void place(Sequence&& sequence, int64_t slot);
  void refill();
  void compact();
  void ensureCapacity(int64_t slots, int64_t positions);
  void step();
  void buildRows();
  void accept(Sequence& sequence, const Draw& draw);
  void finish(Sequence& sequence, FinishReason reason);
  void cancelRest();

  const Model& model_;
  const std::vector<GenerateRequest>& requests_;
  const std::function<void(GeneratedSequence&&)>& onSequence_;
  const Cancel& cancel_;
  KvBudget budget_;
  std::vector<const Policy*> policies_;
  std::vector<int64_t> policyOf_;  // per request
  Decoder decoder_;
  KvCache cache_;
  std::vector<Sequence> slots_;
  size_t nextRequest_ = 0;  // the first not yet in a group
  PrefilledGroup group_;
  // Of the step being made: rows, the slot of each, and what to draw.
  DecodeRows rows_;
  std::vector<int64_t> slotOfRow_;
  std::vector<DrawRow> draws_;
  GenerateStats stats_;
};

}  // namespace acoer
