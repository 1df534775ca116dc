// Decoding: each step makes a token for every sequence in a slot, or several where those that were
// proposed are right.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "base/philox.h"
#include "generate/run.h"

namespace acoer {
namespace {

// Tokens that a thread takes its rows through before the host looks at what has ended.
constexpr int64_t kStepsApart = 8;

}  // namespace

// Tokens that sequences make before the host looks at what has ended. Rows apart take several only
// while no sample waits for a slot, since any may free one, and no group is waited for, since a
// report of the progress would cut them off at some token or other.
int64_t GenerateRun::stepsUntilLook() const {
  if (options_.numSpeculativeTokens > 0) return 1;
  if (gpuSteps_) return kStepsPerLook;
  const bool waiting = !group_.empty() || nextRequest_ < requests_.end();
  return decoder_.rowsAreIndependent() && !waiting && samplesLeft_.empty() ? kStepsApart : 1;
}

// The rows of the next `steps` steps: the slots whose sequences have pages for them. They are
// sorted by policy, and by what they share, so that a row finds in the processor's caches what the
// row before it read.
void GenerateRun::chooseRows(int64_t steps) {
  const int64_t limit = pageLimit(group_.positions, sharedPositions_);
  slotOfRow_.clear();
  pagesPerRow_ = 1;
  for (const Sequence& s : slots_) {
    const int64_t slot = slotOf(s);
    if (!pages_.reach(slot, s.own(s.nextPosition + steps), limit)) continue;
    slotOfRow_.push_back(slot);
  }
  if (options_.numSpeculativeTokens > 0) propose(limit);
  for (const int64_t slot : slotOfRow_) {
    pagesPerRow_ = std::max(pagesPerRow_, std::ssize(pages_.of(slot)));
  }
  growCache();
  if (policies_.size() == 1 && sharedPositions_ == 0) return;
  const auto place = [&](int64_t slot) {
    const Sequence& s = slots_[static_cast<size_t>(slot)];
    return std::pair(s.policy, s.shared ? s.out.request : -1);
  };
  std::stable_sort(slotOfRow_.begin(), slotOfRow_.end(),
                   [&](int64_t a, int64_t b) { return place(a) < place(b); });
}

// What may follow the token that the next step feeds. Nothing follows a stop id, or the last token
// that it may make.
std::vector<int32_t> GenerateRun::proposalFor(const Sequence& sequence) const {
  const GenerateRequest& request = requestOf(sequence);
  const int64_t left = request.maxNewTokens - std::ssize(sequence.out.ids);
  std::vector<int32_t> ids =
      sequence.text->propose(std::min(options_.numSpeculativeTokens, left - 1));
  const auto& stops = request.stopIds;
  ids.erase(std::find_first_of(ids.begin(), ids.end(), stops.begin(), stops.end()), ids.end());
  return ids;
}

// For the sequences of slotOfRow_, as far as there are rows, and pages, for what is proposed.
void GenerateRun::propose(int64_t limit) {
  const auto sequences = std::ssize(slotOfRow_);
  const int64_t room = rowsOfStep(model_, options_, sequences) - sequences;
  if (room == 0) return;
  std::vector<std::vector<int32_t>> proposals;
  std::vector<int64_t> counts;
  for (const int64_t slot : slotOfRow_) {
    proposals.push_back(proposalFor(slots_[static_cast<size_t>(slot)]));
    counts.push_back(std::ssize(proposals.back()));
  }
  counts = sharedRoom(counts, room);
  for (size_t n = 0; n < proposals.size(); ++n) {
    Sequence& s = slots_[static_cast<size_t>(slotOfRow_[n])];
    const int64_t last = s.own(s.nextPosition + 1 + counts[n]);
    if (counts[n] > 0 && !pages_.reach(slotOfRow_[n], last, limit)) continue;
    proposals[n].resize(static_cast<size_t>(counts[n]));
    s.proposed = std::move(proposals[n]);
    stats_.proposedTokens += counts[n];
    for (size_t i = 0; s.seen && i < s.proposed.size(); ++i) {
      s.seenAfter.push_back(i == 0 ? *s.seen : s.seenAfter.back());
      s.seenAfter.back().insert(s.proposed[i]);
    }
  }
}

void GenerateRun::addRows(int64_t slot, DecodeRows& rows, std::vector<DrawRow>& draws) const {
  const Sequence& sequence = slots_[static_cast<size_t>(slot)];
  const GenerateRequest& request = requestOf(sequence);
  for (size_t i = 0; i < sequence.rows(); ++i) {
    rows.add(sequence.policy, i == 0 ? sequence.nextId : sequence.proposed[i - 1], pages_.of(slot),
             sequence.nextPosition + static_cast<int64_t>(i), sequence.shared.get());
    DrawRow draw;
    draw.logitsRow = std::ssize(draws);
    draw.options = &request.sampling;
    draw.uniform =
        samplerUniform(request.seed, sampleNumber(sequence),
                       static_cast<uint64_t>(request.firstToken) + sequence.out.ids.size() + i);
    if (sequence.seen) draw.seen = i == 0 ? &*sequence.seen : &sequence.seenAfter[i - 1];
    draws.push_back(draw);
  }
}

void GenerateRun::step() {
  const auto start = Clock::now();
  const int64_t steps = stepsUntilLook();
  chooseRows(steps);
  if (gpuSteps_) {
    stepOnGpu(steps);
  } else if (decoder_.rowsAreIndependent() && options_.numSpeculativeTokens == 0) {
    stepsApart(steps);
  } else {
    stepOnHost();
  }
  stats_.decodeMs += millisecondsSince(start);
}

void GenerateRun::stepOnHost() {
  rows_.clear(pagesPerRow_);
  draws_.clear();
  for (int64_t slot : slotOfRow_) addRows(slot, rows_, draws_);
  const std::vector<Draw> draws = drawTokens(decoder_.decode(rows_, cache_), draws_);
  stats_.decodeSteps += 1;
  acceptStep(draws);
}

// Rows that do not depend on each other need not wait for each other: each thread takes some of
// them through several steps.
void GenerateRun::stepsApart(int64_t steps) {
  const auto count = std::ssize(slotOfRow_);
  std::vector<int64_t> begun;
  for (const Sequence& s : slots_) begun.push_back(s.nextPosition);
  decoder_.ensureRoom(count);
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    const c10::NoGradGuard noGrad;  // grad mode is thread-local
    runApart(begin, end, steps);
  });
  // In the order in which they ended.
  const auto tokens = [&](int64_t slot) {
    const auto s = static_cast<size_t>(slot);
    return slots_[s].nextPosition - begun[s];
  };
  std::stable_sort(slotOfRow_.begin(), slotOfRow_.end(),
                   [&](int64_t a, int64_t b) { return tokens(a) < tokens(b); });
  stats_.decodeSteps += tokens(slotOfRow_.back());
  for (const int64_t slot : slotOfRow_) deliver(slots_[static_cast<size_t>(slot)]);
}

// Up to `steps` tokens for rows [begin, end) of slotOfRow_; changes nothing but their sequences.
void GenerateRun::runApart(int64_t begin, int64_t end, int64_t steps) {
  DecodeRows rows;
  std::vector<DrawRow> draws;
  std::vector<Sequence*> live;
  for (int64_t step = 0; step < steps; ++step) {
    if (step > 0 && (cancel_.requested() || reportIsDue())) return;
    rows.clear(pagesPerRow_);
    draws.clear();
    live.clear();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = slotOfRow_[static_cast<size_t>(row)];
      Sequence& sequence = slots_[static_cast<size_t>(slot)];
      if (sequence.done || !sequence.finite) continue;
      addRows(slot, rows, draws);
      live.push_back(&sequence);
    }
    if (live.empty()) return;
    const std::vector<Draw> drawn = drawTokens(decoder_.decode(rows, cache_, begin), draws);
    for (size_t n = 0; n < live.size(); ++n) append(*live[n], drawn[n]);
  }
}

void GenerateRun::stepOnGpu(int64_t steps) {
  std::vector<GpuRow> rows;
  for (int64_t slot : slotOfRow_) {
    const Sequence& s = slots_[static_cast<size_t>(slot)];
    rows.push_back({.policy = s.policy,
                    .id = s.nextId,
                    .position = s.nextPosition,
                    .pages = pages_.of(slot).data(),
                    .pageCount = std::ssize(pages_.of(slot)),
                    .request = &requestOf(s),
                    .requestIndex = s.out.request,
                    .sample = sampleNumber(s),
                    .drawn = std::ssize(s.out.ids),
                    .seen = s.seen ? &*s.seen : nullptr});
    for (size_t i = 0; i < s.proposed.size(); ++i) {
      rows.push_back(rows.back());
      rows.back().id = s.proposed[i];
      rows.back().position += 1;
      rows.back().drawn += 1;
      if (s.seen) rows.back().seen = &s.seenAfter[i];
    }
  }
  const std::vector<Draw> draws = gpuSteps_->run(rows, steps);
  stats_.decodeSteps += static_cast<int64_t>(draws.size() / rows.size());
  for (size_t begin = 0; begin < draws.size(); begin += rows.size()) {
    acceptStep(std::span(draws).subspan(begin, rows.size()));
  }
}

void GenerateRun::append(Sequence& sequence, const Draw& draw) const {
  sequence.finite = draw.finite;
  if (!draw.finite) return;
  const GenerateRequest& request = requestOf(sequence);
  GeneratedSequence& out = sequence.out;
  out.ids.push_back(draw.id);
  out.logprobs.push_back(draw.logprob);
  out.entropies.push_back(draw.entropy);
  if (sequence.seen) sequence.seen->insert(draw.id);
  sequence.nextId = draw.id;
  sequence.nextPosition += 1;
  const auto& stops = request.stopIds;
  if (std::find(stops.begin(), stops.end(), draw.id) != stops.end()) {
    out.finish = FinishReason::kStop;
    sequence.done = true;
  } else if (std::ssize(out.ids) == request.maxNewTokens) {
    out.finish = FinishReason::kLength;
    sequence.done = true;
  }
}

// What was drawn by one step for the rows of slotOfRow_, in their order. On a GPU some may have
// ended since the last look.
void GenerateRun::acceptStep(std::span<const Draw> draws) {
  size_t row = 0;
  for (const int64_t slot : slotOfRow_) {
    Sequence& sequence = slots_[static_cast<size_t>(slot)];
    const size_t rows = sequence.rows();
    if (!sequence.done) acceptRows(sequence, draws.subspan(row, rows));
    row += rows;
  }
}

// Draws count as long as each was made after the tokens that were drawn before it.
void GenerateRun::acceptRows(Sequence& sequence, std::span<const Draw> draws) {
  const std::vector<int32_t> proposed = std::exchange(sequence.proposed, {});
  sequence.seenAfter.clear();
  for (size_t i = 0; i < draws.size(); ++i) {
    append(sequence, draws[i]);
    if (sequence.done || !sequence.finite) break;
    if (sequence.text) sequence.text->append(draws[i].id);
    if (i == proposed.size() || proposed[i] != draws[i].id) break;
    stats_.acceptedTokens += 1;
  }
  deliver(sequence);
}

}  // namespace acoer
