// Admission: which waiting sample enters which slot, and when prompts are prefilled.
#include <algorithm>

#include "generate/run.h"
#include "kernels/cpu/kernels.h"

namespace acoer {
namespace {

// The pages that hold a sequence's first positions, and which of them.
template <class Visit>
void forEachPage(std::span<const int32_t> pages, int64_t pagePositions, int64_t positions,
                 const Visit& visit) {
  for (int64_t begin = 0; begin < positions; begin += pagePositions) {
    visit(pages[static_cast<size_t>(begin / pagePositions)], begin,
          std::min(pagePositions, positions - begin));
  }
}

}  // namespace

// Positions that the samples of a request share: whole tiles of its prompt without the last token,
// which is left to the decode steps.
int64_t GenerateRun::sharedOf(const GenerateRequest& request) const {
  if (request.numSamples < 2 || !decoder_.readsSharedPositions()) return 0;
  return (std::ssize(request.promptIds) - 1) / kernels::kKeyTile * kernels::kKeyTile;
}

// What a sample of the request holds when it enters: its prompt, and room for its first new token.
KvPages::Claim GenerateRun::claimOf(const GenerateRequest& request) const {
  const int64_t shared = sharedOf(request);
  return {.held = pages_.pagesFor(std::ssize(request.promptIds) - shared),
          .most = pages_.pagesFor(positionsNeeded(request) - shared)};
}

// Pages that sequences may hold next to `held` positions of prefilled prompts and shared ones.
int64_t GenerateRun::pageLimit(int64_t held, int64_t shared) const {
  return budget_.fixedPages > 0 ? budget_.fixedPages
                                : (budget_.positions - held - shared) / budget_.pagePositions;
}

// Whether samples may enter next to `held` positions of prefilled prompts. `newlyShared`: positions
// of prompts that they would be the first to share.
bool GenerateRun::admits(const std::vector<KvPages::Claim>& samples, int64_t held,
                         int64_t newlyShared) const {
  if (pages_.sequences() + std::ssize(samples) > budget_.maxSlots) return false;
  const int64_t pool = budget_.fixedPages * budget_.pagePositions;
  if (pool > 0 && pool + held > budget_.positions) return false;
  return pages_.admits(samples, pageLimit(held, sharedPositions_ + newlyShared));
}

void GenerateRun::checkArrival(const GenerateRequest& request) const {
  const size_t number = requests_.end();
  const std::string name = nameOf(number);
  checkRequest(model_, number, request);
  if (std::find(policies_.begin(), policies_.end(), request.policy) == policies_.end()) {
    fail(ErrorCode::kBadArgument, name, "the decoder was not opened with its policy");
  }
  const int64_t positions = std::ssize(request.promptIds) + request.maxNewTokens;
  if (positions > open_->positions) {
    fail(ErrorCode::kBadArgument, name, "a prompt of ", request.promptIds.size(),
         " tokens and maxNewTokens ", request.maxNewTokens, " exceed the decoder's ",
         open_->positions, " positions; shorten either or open it with more");
  }
  require(std::ssize(request.stopIds) <= kMostStopIds, name + "stopIds",
          c10::str("at most ", kMostStopIds, " ids"), std::ssize(request.stopIds));
  if (gpuSteps_ && isTooCold(request)) fail(ErrorCode::kBadArgument, name, kTooCold);
  checkFits(model_, number, request, budget_, options_);
}

void GenerateRun::takeArrivals() {
  if (closed_) return;
  Arrivals arrived = open_->arrivals(isIdle());
  closed_ = arrived.closed;
  for (auto& arrival : arrived.requests) {
    try {
      if (const auto* error = std::get_if<EngineError>(&arrival)) throw EngineError(*error);
      auto& request = std::get<GenerateRequest>(arrival);
      checkArrival(request);
      admit(std::move(request));
    } catch (const EngineError& error) {
      const auto number = static_cast<int64_t>(requests_.end());
      requests_.addRefused();
      open_->onRefused(number, error);
    }
  }
  for (const int64_t request : arrived.cancelled) cancelRequest(static_cast<size_t>(request));
}

// Moves the next requests whose first samples fit now into group_; false if none fits.
bool GenerateRun::prepareGroup() {
  std::vector<KvPages::Claim> samples;
  int64_t tokens = 0, promptLength = 0, prompts = 0, shared = 0;
  // Without those that were refused, or cancelled while they waited.
  while (nextRequest_ < requests_.end() && requests_.samplesOf(nextRequest_) == 0)
    nextRequest_ += 1;
  const size_t begin = nextRequest_;
  while (nextRequest_ < requests_.end() && requests_.samplesOf(nextRequest_) > 0) {
    const GenerateRequest& request = requests_[nextRequest_];
    promptLength = std::max(promptLength, promptPositions(request));
    tokens += std::ssize(request.promptIds);
    if (prompts > 0 && tokens > kPrefillTokens) break;
    samples.push_back(claimOf(request));
    shared += sharedOf(request);
    if (!admits(samples, (prompts + 1) * promptLength, shared)) break;
    group_.positions = (prompts + 1) * promptLength;
    prompts += 1;
    nextRequest_ += 1;
    // More than have a slot would only be refused.
    const int64_t others = std::min(request.numSamples - 1, budget_.maxSlots);
    samples.insert(samples.end(), static_cast<size_t>(others), samples.back());
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
  int64_t longest = 0;
  for (size_t r = group_.begin; r < group_.end; ++r) {
    order.push_back(r);
    longest = std::max(longest, std::ssize(requests_[r].promptIds) - 1);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return requests_.policyOf(a) < requests_.policyOf(b);
  });
  group_.cache.emplace(decoder_.makeCache());
  group_.cache->resize(static_cast<int64_t>(group_.end - group_.begin), longest, 0, 0);
  // A prompt's last token is left to the decode steps of its samples, which need its logits.
  DecodeRows whole, rest;
  int64_t tokensOfWhole = 0, tokensOfRest = 0;
  for (size_t r : order) {
    const auto& ids = requests_[r].promptIds;
    const int64_t policy = requests_.policyOf(r);
    const auto slot = static_cast<int32_t>(r - group_.begin);
    const KeptCaches::Prefix kept = kept_.longest(policy, ids);
    if (kept.cache != nullptr) group_.cache->copySlot(*kept.cache, 0, 0, slot, kept.positions);
    DecodeRows& rows = kept.cache != nullptr ? rest : whole;
    for (auto t = static_cast<size_t>(kept.positions); t + 1 < ids.size(); ++t) {
      rows.add(policy, ids[t], {&slot, 1}, static_cast<int64_t>(t));
    }
    (kept.cache != nullptr ? tokensOfRest : tokensOfWhole) += std::ssize(ids) - kept.positions;
    stats_.keptTokens += kept.positions;
  }
  const auto reportingOn = [&](int64_t tokens) {
    return [this, tokens](double share) {
      report(stats_.promptTokens + static_cast<int64_t>(share * static_cast<double>(tokens)));
      return !cancel_.requested();
    };
  };
  if (whole.count() > 0) decoder_.prefill(whole, *group_.cache, reportingOn(tokensOfWhole));
  stats_.promptTokens += tokensOfWhole;
  if (rest.count() > 0) decoder_.extend(rest, *group_.cache, reportingOn(tokensOfRest));
  stats_.promptTokens += tokensOfRest;
  stats_.prefillMs += millisecondsSince(start);
}

// To the next sample of the group that is to be made: past those that have entered, and those that
// were cancelled while they waited.
void GenerateRun::skipEnded() {
  while (!group_.empty() && group_.sample >= requests_.samplesOf(group_.request)) {
    group_.request += 1;
    group_.sample = 0;
    group_.shared.reset();
  }
}

// Whether a sample is ready in group_ and fits now.
bool GenerateRun::enterable() {
  if (cancel_.requested()) return false;
  skipEnded();
  if (group_.empty()) {
    group_.cache.reset();
    group_.positions = 0;
    if (nextRequest_ == requests_.end() || !prepareGroup()) return false;
    prefillGroup();
    if (cancel_.requested()) return false;
  }
  const GenerateRequest& request = requests_[group_.request];
  return admits({claimOf(request)}, group_.positions, group_.sample == 0 ? sharedOf(request) : 0);
}

// Whose texts its own may be proposed from: those of its group, if there are groups.
int64_t GenerateRun::groupOf(const GenerateRequest& request, size_t number) const {
  return samplesLeft_.empty() ? static_cast<int64_t>(number) : request.group;
}

GenerateRun::Sequence GenerateRun::makeSequence() {
  const GenerateRequest& request = requests_[group_.request];
  Sequence sequence;
  sequence.out.request = static_cast<int64_t>(group_.request);
  sequence.out.sample = group_.sample;
  sequence.policy = requests_.policyOf(group_.request);
  sequence.nextId = request.promptIds.back();
  sequence.nextPosition = std::ssize(request.promptIds) - 1;
  if (request.sampling.repetitionPenalty != 1) {
    sequence.seen.emplace(request.promptIds.begin(), request.promptIds.end());
  }
  if (options_.numSpeculativeTokens > 0) {
    sequence.text =
        texts_.enter(groupOf(request, group_.request), request.promptIds, request.firstToken);
  }
  return sequence;
}

// What an ended sequence has in the cache, for requests that continue it.
void GenerateRun::keepCache(const Sequence& sequence) {
  const int64_t positions = sequence.nextPosition;
  if (!kept_.keepsSome() || positions == 0 || cancel_.requested()) return;
  std::vector<int32_t> ids = requestOf(sequence).promptIds;
  ids.insert(ids.end(), sequence.out.ids.begin(), sequence.out.ids.end());
  ids.resize(static_cast<size_t>(positions));  // the last token has not been fed
  KvCache cache = decoder_.makeCache();
  cache.resize(1, positions, 0, 0);
  const int64_t shared = sequence.shared ? sequence.shared->positions() : 0;
  if (shared > 0) cache.copySlot(*sequence.shared, 0, 0, 0, shared);
  forEachPage(pages_.of(slotOf(sequence)), budget_.pagePositions, positions - shared,
              [&](int64_t page, int64_t begin, int64_t count) {
                cache.copySlot(cache_, page, 0, 0, count, shared + begin);
              });
  kept_.keep(sequence.policy, std::move(ids), std::move(cache));
}

// The first positions of a prompt of the group in a cache of their own, since the group's goes when
// its last sample has entered. Freed with the last sample that reads them.
std::shared_ptr<const KvCache> GenerateRun::sharePrompt(int64_t prompt, int64_t positions) {
  auto cache = std::make_unique<KvCache>(decoder_.makeCache());
  cache->resize(1, positions, 0, 0);
  cache->copySlot(*group_.cache, prompt, 0, 0, positions);
  sharedPositions_ += positions;
  return {cache.release(), [this](const KvCache* freed) {
            sharedPositions_ -= freed->positions();
            delete freed;
          }};
}

void GenerateRun::place(Sequence&& sequence, int64_t slot) {
  const GenerateRequest& request = requests_[group_.request];
  const int64_t prompt = static_cast<int64_t>(group_.request - group_.begin);
  const int64_t shared = sharedOf(request), positions = sequence.nextPosition - shared;
  if (shared > 0 && group_.sample == 0) group_.shared = sharePrompt(prompt, shared);
  sequence.shared = group_.shared;
  if (slot == std::ssize(slots_)) {
    slots_.push_back(std::move(sequence));
  } else {
    slots_[static_cast<size_t>(slot)] = std::move(sequence);
  }
  pages_.enter(slot, claimOf(request));
  growCache();
  forEachPage(pages_.of(slot), budget_.pagePositions, positions,
              [&](int64_t page, int64_t begin, int64_t count) {
                cache_.copySlot(*group_.cache, prompt, shared + begin, page, count);
              });
  group_.sample += 1;
  skipEnded();
}

// Waiting samples take the slots of finished ones. Slots that stay empty are closed up, and the
// remaining samples are appended. So active slots are always 0 .. n-1.
void GenerateRun::refill() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot].done) continue;
    if (!enterable()) break;
    place(makeSequence(), static_cast<int64_t>(slot));
  }
  compact();
  while (enterable()) place(makeSequence(), std::ssize(slots_));
  stats_.peakSlots = std::max(stats_.peakSlots, std::ssize(slots_));
}

void GenerateRun::compact() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    while (!slots_.empty() && slots_.back().done) slots_.pop_back();
    if (slot >= slots_.size() || !slots_[slot].done) continue;
    pages_.move(std::ssize(slots_) - 1, static_cast<int64_t>(slot));
    slots_[slot] = std::move(slots_.back());
    slots_.pop_back();
  }
}

// Room for the pages that have been given. It doubles, but not beyond what the sequences in slots
// can reach.
void GenerateRun::growCache() {
  const int64_t needed = pages_.used(), had = cache_.slots();
  if (needed <= had) return;
  const int64_t limit = pageLimit(group_.positions, sharedPositions_);
  cache_.resize(std::max(needed, std::min({2 * had, pages_.most(), limit})), budget_.pagePositions,
                had, budget_.pagePositions);
}

}  // namespace acoer
