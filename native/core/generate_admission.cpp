// Admission: which waiting sample enters which slot, and when prompts are prefilled.
#include <algorithm>

#include "generate_run.h"

namespace acoer {
namespace {

// Prompts are prefilled together up to this many tokens: enough rows to use the weights well.
constexpr int64_t kPrefillTokens = 2048;
// The cache has room for at least this many positions, so that short runs grow it once.
constexpr int64_t kFirstPositions = 64;

}  // namespace

// Every slot has room for the longest sequence: `live` slots, or all if their room is fixed, next
// to `held` positions of prefilled prompts.
bool GenerateRun::fits(int64_t live, int64_t longest, int64_t held) const {
  const int64_t taken = budget_.fixed ? cache_.slots() * cache_.positions() : live * longest;
  return live <= budget_.maxSlots && taken + held <= budget_.positions;
}

int64_t GenerateRun::liveCount() const {
  return std::count_if(slots_.begin(), slots_.end(), [](const Sequence& s) { return !s.done; });
}

int64_t GenerateRun::longestLive() const {
  int64_t longest = 0;
  for (const Sequence& sequence : slots_) {
    if (!sequence.done) longest = std::max(longest, positionsNeeded(requestOf(sequence)));
  }
  return longest;
}

// Moves the next requests whose first samples fit now into group_; false if none fits.
bool GenerateRun::prepareGroup() {
  int64_t live = liveCount(), longest = longestLive();
  int64_t tokens = 0, promptLength = 0, prompts = 0;
  const size_t begin = nextRequest_;
  while (nextRequest_ < requests_.size()) {
    const GenerateRequest& request = requests_[nextRequest_];
    longest = std::max(longest, positionsNeeded(request));
    promptLength = std::max(promptLength, promptPositions(request));
    tokens += static_cast<int64_t>(request.promptIds.size());
    if (prompts > 0 && tokens > kPrefillTokens) break;
    if (!fits(live + 1, longest, (prompts + 1) * promptLength)) break;
    group_.positions = (prompts + 1) * promptLength;
    prompts += 1;
    live += request.numSamples;
    nextRequest_ += 1;
  }
  if (prompts == 0) return false;
  group_.begin = group_.request = begin;
  group_.end = nextRequest_;
  group_.sample = 0;
  return true;
}

void GenerateRun::prefillGroup() {
  const auto start = Clock::now();
  std::vector<size_t> order;
  int64_t longest = 0, tokens = 0;
  for (size_t r = group_.begin; r < group_.end; ++r) {
    order.push_back(r);
    longest = std::max(longest, static_cast<int64_t>(requests_[r].promptIds.size()) - 1);
    tokens += static_cast<int64_t>(requests_[r].promptIds.size());
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return policyOf_[a] < policyOf_[b]; });
  // A prompt's last token is left to the decode steps of its samples, which need its logits.
  DecodeRows rows;
  for (size_t r : order) {
    const auto& ids = requests_[r].promptIds;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      rows.add(policyOf_[r], ids[t], static_cast<int64_t>(r - group_.begin),
               static_cast<int64_t>(t));
    }
  }
  group_.cache.emplace(decoder_.makeCache());
  group_.cache->resize(static_cast<int64_t>(group_.end - group_.begin), longest, 0, 0);
  const auto goesOn = [&](double share) {
    report(stats_.promptTokens + static_cast<int64_t>(share * static_cast<double>(tokens)));
    return !cancel_.requested();
  };
  if (rows.count() > 0) decoder_.prefill(rows, *group_.cache, goesOn);
  stats_.promptTokens += tokens;
  stats_.prefillMs += millisecondsSince(start);
}

// Whether a sample is ready in group_ and fits now.
bool GenerateRun::enterable() {
  if (cancel_.requested()) return false;
  if (group_.empty()) {
    group_.cache.reset();
    group_.positions = 0;
    if (nextRequest_ == requests_.size() || !prepareGroup()) return false;
    prefillGroup();
    if (cancel_.requested()) return false;
  }
  const int64_t longest = std::max(longestLive(), positionsNeeded(requests_[group_.request]));
  return fits(liveCount() + 1, longest, group_.positions);
}

GenerateRun::Sequence GenerateRun::makeSequence() {
  const GenerateRequest& request = requests_[group_.request];
  Sequence sequence;
  sequence.out.request = static_cast<int64_t>(group_.request);
  sequence.out.sample = group_.sample;
  sequence.policy = policyOf_[group_.request];
  sequence.nextId = request.promptIds.back();
  sequence.nextPosition = static_cast<int64_t>(request.promptIds.size()) - 1;
  if (request.sampling.repetitionPenalty != 1) {
    sequence.seen.emplace(request.promptIds.begin(), request.promptIds.end());
  }
  return sequence;
}

void GenerateRun::place(Sequence&& sequence, int64_t slot) {
  const int64_t prompt = static_cast<int64_t>(group_.request - group_.begin);
  const int64_t positions = sequence.nextPosition;
  if (slot == static_cast<int64_t>(slots_.size())) {
    slots_.push_back(std::move(sequence));
  } else {
    slots_[static_cast<size_t>(slot)] = std::move(sequence);
  }
  ensureCapacity(static_cast<int64_t>(slots_.size()), positions + 1);
  cache_.copySlot(*group_.cache, prompt, slot, positions);
  if (++group_.sample == requests_[group_.request].numSamples) {
    group_.request += 1;
    group_.sample = 0;
  }
}

// Waiting samples take the slots of finished ones. Slots that stay empty are closed up, and the
// remaining samples are appended. So active slots are always 0 .. n-1, and nothing is moved while
// samples wait.
void GenerateRun::refill() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].done) continue;
    if (!enterable()) break;
    place(makeSequence(), static_cast<int64_t>(slot));
  }
  compact();
  while (enterable()) place(makeSequence(), static_cast<int64_t>(slots_.size()));
  stats_.peakSlots = std::max(stats_.peakSlots, static_cast<int64_t>(slots_.size()));
}

void GenerateRun::compact() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    while (!slots_.empty() && slots_.back().done) slots_.pop_back();
    if (slot >= slots_.size() || !slots_[slot].done) continue;
    cache_.copySlot(cache_, static_cast<int64_t>(slots_.size()) - 1, static_cast<int64_t>(slot),
                    slots_.back().nextPosition);
    slots_[slot] = std::move(slots_.back());
    slots_.pop_back();
  }
}

// Grows by doubling, within the budget and not beyond what the active sequences can reach.
void GenerateRun::ensureCapacity(int64_t slots, int64_t positions) {
  if (slots <= cache_.slots() && positions <= cache_.positions()) return;
  int64_t newPositions = cache_.positions();
  if (positions > newPositions) {
    newPositions = std::max(KvCache::roundedPositions(positions),
                            std::min(std::max(2 * newPositions, kFirstPositions), longestLive()));
  }
  const int64_t room = std::max(slots, (budget_.positions - group_.positions) / newPositions);
  int64_t newSlots = cache_.slots();
  if (slots > newSlots) newSlots = std::max(slots, std::min(2 * newSlots, budget_.maxSlots));
  newSlots = std::min(newSlots, room);
  const int64_t keep = std::min({slots, cache_.slots(), newSlots});
  cache_.resize(newSlots, newPositions, keep, std::min(cache_.positions(), newPositions));
}

}  // namespace acoer
