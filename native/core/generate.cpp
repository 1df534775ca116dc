#include "generate.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>

#include "decode.h"
#include "generate_plan.h"
#include "gpu_steps.h"
#include "philox.h"
#include "sampler.h"

namespace acoer {
namespace {

// Prompts are prefilled together up to this many tokens: enough rows to use the weights well.
constexpr int64_t kPrefillTokens = 2048;
// Tokens that a thread takes its rows through before the host looks at what has ended.
constexpr int64_t kStepsApart = 8;
// The cache has room for at least this many positions, so that short runs grow it once.
constexpr int64_t kFirstPositions = 64;

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<const Policy*> policiesOf(const std::vector<GenerateRequest>& requests) {
  std::vector<const Policy*> policies;
  for (const GenerateRequest& request : requests) policies.push_back(request.policy);
  return Decoder::orderPolicies(policies);
}

int64_t longestNeeded(const std::vector<GenerateRequest>& requests) {
  int64_t longest = 1;
  for (const auto& request : requests) longest = std::max(longest, positionsNeeded(request));
  return longest;
}

// Our CUDA kernels if they decode these requests, else null and the reason, which is empty on a
// CPU.
struct KernelChoice {
  const GpuKernels* kernels = nullptr;
  std::string reason;
};

// Below this temperature the sampler's kernels can tell apart too few logits (sampler_logits.cuh).
constexpr double kColdest = 1e-6;

KernelChoice chooseKernels(const Model& model, const std::vector<GenerateRequest>& requests,
                           const GenerateOptions& options) {
  if (options.path == DecodePath::kTensorOps) return {};
  if (model.kernels == nullptr) {
    return {nullptr, model.device.is_cpu() ? "" : gpuKernels().reason};
  }
  const auto isCold = [](const GenerateRequest& request) {
    return request.sampling.temperature > 0 && request.sampling.temperature < kColdest;
  };
  if (std::any_of(requests.begin(), requests.end(), isCold)) {
    return {nullptr, "acoer's CUDA kernels need temperatures of 0 or at least 1e-6"};
  }
  const std::string reason = Decoder::kernelsDoNotFit(model);
  return {reason.empty() ? model.kernels : nullptr, reason};
}

// The state of one generate() call: which sequences hold a slot, and which prompts wait.
class GenerateRun {
 public:
  GenerateRun(const Model& model, const std::vector<GenerateRequest>& requests,
              const GenerateOptions& options,
              const std::function<void(GeneratedSequence&&)>& onSequence, const Cancel& cancel);
  GenerateStats run();

 private:
  // A sequence that is being decoded. Its slot is its index in slots_.
  struct Sequence {
    GeneratedSequence out;
    int64_t policy = 0;
    int32_t nextId = 0;                               // the token the next step feeds
    int64_t nextPosition = 0;                         // and its position
    bool done = false;                                // its tokens are complete
    bool finite = true;                               // the logits of its next token
    std::optional<std::unordered_set<int32_t>> seen;  // only with a repetition penalty
  };
  // Prompts prefilled together; their samples enter slots in order.
  struct PrefilledGroup {
    size_t begin = 0, end = 0;  // requests
    size_t request = 0;         // the next to enter
    int64_t sample = 0;
    std::optional<KvCache> cache;  // slot r - begin holds all but the last token of request r
    int64_t positions = 0;         // what the cache takes of the budget
    bool empty() const { return request == end; }
  };

  const GenerateRequest& requestOf(const Sequence& s) const {
    return requests_[static_cast<size_t>(s.out.request)];
  }
  // Of its random numbers.
  uint64_t sampleNumber(const Sequence& s) const {
    return static_cast<uint64_t>(requestOf(s).firstSample) + static_cast<uint64_t>(s.out.sample);
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
  void cancelRest();

  const Model& model_;
  const std::vector<GenerateRequest>& requests_;
  const GenerateOptions& options_;
  const std::function<void(GeneratedSequence&&)>& onSequence_;
  const Cancel& cancel_;
  KvBudget budget_;
  std::vector<const Policy*> policies_;
  std::vector<int64_t> policyOf_;  // per request
  KernelChoice kernels_;
  Decoder decoder_;
  KvCache cache_;
  std::unique_ptr<GpuSteps> gpuSteps_;  // with CUDA kernels
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

GenerateRun::GenerateRun(const Model& model, const std::vector<GenerateRequest>& requests,
                         const GenerateOptions& options,
                         const std::function<void(GeneratedSequence&&)>& onSequence,
                         const Cancel& cancel)
    : model_(model),
      requests_(requests),
      options_(options),
      onSequence_(onSequence),
      cancel_(cancel),
      budget_(planKvBudget(model, requests, options)),
      policies_(policiesOf(requests)),
      kernels_(chooseKernels(model, requests, options)),
      decoder_(model, policies_, longestNeeded(requests), options.path, kernels_.kernels),
      cache_(decoder_.makeCache()) {
  stats_.fallback = kernels_.reason;
  for (const GenerateRequest& request : requests) {
    const auto place = std::find(policies_.begin(), policies_.end(), request.policy);
    policyOf_.push_back(place - policies_.begin());
  }
  if (requests.empty()) return;
  if (budget_.fixed) cache_.resize(budget_.maxSlots, longestNeeded(requests), 0, 0);
  if (kernels_.kernels == nullptr) return;
  gpuSteps_ = std::make_unique<GpuSteps>(model, *kernels_.kernels, decoder_, cache_, requests,
                                         budget_.maxSlots);
}

GenerateStats GenerateRun::run() {
  while (!cancel_.requested()) {
    refill();
    if (slots_.empty() || cancel_.requested()) break;
    step();
    report(stats_.promptTokens);
  }
  if (cancel_.requested()) cancelRest();
  if (gpuSteps_) stats_.fallback = gpuSteps_->noGraphsBecause();
  return stats_;
}

// Admission: which waiting sample enters which slot, and when prompts are prefilled.

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

// Decoding: each step makes one token for every sequence in a slot.

// The rows of a step are the slots, sorted by policy.
void GenerateRun::orderRows() {
  slotOfRow_.resize(slots_.size());
  for (size_t s = 0; s < slots_.size(); ++s) slotOfRow_[s] = static_cast<int64_t>(s);
  if (policies_.size() == 1) return;
  std::stable_sort(slotOfRow_.begin(), slotOfRow_.end(), [&](int64_t a, int64_t b) {
    return slots_[static_cast<size_t>(a)].policy < slots_[static_cast<size_t>(b)].policy;
  });
}

void GenerateRun::addRow(const Sequence& sequence, int64_t slot, DecodeRows& rows,
                         std::vector<DrawRow>& draws) const {
  const GenerateRequest& request = requestOf(sequence);
  rows.add(sequence.policy, sequence.nextId, slot, sequence.nextPosition);
  DrawRow draw;
  draw.logitsRow = static_cast<int64_t>(draws.size());
  draw.options = &request.sampling;
  draw.uniform = samplerUniform(request.seed, sampleNumber(sequence), sequence.out.ids.size());
  draw.seen = sequence.seen ? &*sequence.seen : nullptr;
  draws.push_back(draw);
}

void GenerateRun::step() {
  const auto start = Clock::now();
  orderRows();
  if (gpuSteps_) {
    stepOnGpu();
  } else if (decoder_.rowsAreIndependent()) {
    stepsApart();
  } else {
    stepOnHost();
  }
  stats_.decodeMs += millisecondsSince(start);
}

void GenerateRun::stepOnHost() {
  rows_.clear();
  draws_.clear();
  for (int64_t slot : slotOfRow_) addRow(slots_[static_cast<size_t>(slot)], slot, rows_, draws_);
  ensureCapacity(static_cast<int64_t>(slots_.size()),
                 1 + *std::max_element(rows_.positions.begin(), rows_.positions.end()));
  const std::vector<Draw> draws = drawTokens(decoder_.decode(rows_, cache_), draws_);
  stats_.decodeSteps += 1;
  for (size_t n = 0; n < draws.size(); ++n) {
    accept(slots_[static_cast<size_t>(slotOfRow_[n])], draws[n]);
  }
}

// Rows that do not depend on each other need not wait for each other: each thread takes some of
// them through several steps. While samples wait for a slot it is one step, since any may free one.
void GenerateRun::stepsApart() {
  const auto count = static_cast<int64_t>(slots_.size());
  const bool waiting = !group_.empty() || nextRequest_ < requests_.size();
  const int64_t steps = waiting ? 1 : kStepsApart;
  int64_t furthest = 0;
  std::vector<int64_t> begun;
  for (const Sequence& s : slots_) {
    furthest = std::max(furthest, s.nextPosition + steps);
    begun.push_back(s.nextPosition);
  }
  ensureCapacity(count, std::min(furthest, longestLive()));
  decoder_.ensureRoom(count, true);
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
    rows.clear();
    draws.clear();
    live.clear();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = slotOfRow_[static_cast<size_t>(row)];
      Sequence& sequence = slots_[static_cast<size_t>(slot)];
      if (sequence.done || !sequence.finite) continue;
      addRow(sequence, slot, rows, draws);
      live.push_back(&sequence);
    }
    if (live.empty()) return;
    const std::vector<Draw> drawn = drawTokens(decoder_.decode(rows, cache_, begin), draws);
    for (size_t n = 0; n < live.size(); ++n) append(*live[n], drawn[n]);
  }
}

void GenerateRun::stepOnGpu() {
  std::vector<GpuRow> rows;
  for (int64_t slot : slotOfRow_) {
    const Sequence& s = slots_[static_cast<size_t>(slot)];
    rows.push_back({.policy = s.policy,
                    .id = s.nextId,
                    .slot = slot,
                    .position = s.nextPosition,
                    .request = &requestOf(s),
                    .requestIndex = s.out.request,
                    .sample = sampleNumber(s),
                    .drawn = static_cast<int64_t>(s.out.ids.size()),
                    .seen = s.seen ? &*s.seen : nullptr});
  }
  const std::vector<Draw> draws = gpuSteps_->run(rows);
  stats_.decodeSteps += static_cast<int64_t>(draws.size() / rows.size());
  for (size_t i = 0; i < draws.size(); ++i) {
    Sequence& sequence = slots_[static_cast<size_t>(slotOfRow_[i % rows.size()])];
    if (!sequence.done) accept(sequence, draws[i]);
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
  } else if (static_cast<int64_t>(out.ids.size()) == request.maxNewTokens) {
    out.finish = FinishReason::kLength;
    sequence.done = true;
  }
}

void GenerateRun::accept(Sequence& sequence, const Draw& draw) {
  append(sequence, draw);
  deliver(sequence);
}

// Hands the sequence out if it is done. Throws if it cannot go on.
void GenerateRun::deliver(Sequence& sequence) {
  if (!sequence.finite) {
    const Place place{sequence.out.request, sequence.out.sample,
                      static_cast<int64_t>(sequence.out.ids.size())};
    fail(ErrorCode::kNotFinite,
         "generate: the logits of request " + std::to_string(place.request) + ", sample " +
             std::to_string(place.sample) + " are not finite at new token " +
             std::to_string(place.token) +
             "; the weights or the adapter contain values that are not finite or far too large",
         place);
  }
  if (!sequence.done) return;
  stats_.newTokens += static_cast<int64_t>(sequence.out.ids.size());
  ended_ += 1;
  onSequence_(std::move(sequence.out));
}

bool GenerateRun::reportIsDue() const {
  return options_.onProgress && millisecondsSince(reported_) >= options_.progressEveryMs;
}

void GenerateRun::report(int64_t promptTokens) {
  if (cancel_.requested() || !reportIsDue()) return;
  GenerateProgress progress{.ended = ended_, .promptTokens = promptTokens, .inFlight = {}};
  for (const GenerateRequest& request : requests_) progress.total += request.numSamples;
  for (const Sequence& sequence : slots_) {
    if (sequence.done) continue;
    const GeneratedSequence& out = sequence.out;
    for (const int64_t value : {out.request, out.sample, static_cast<int64_t>(out.ids.size())}) {
      progress.inFlight.push_back(static_cast<int32_t>(value));
    }
  }
  options_.onProgress(std::move(progress));
  reported_ = Clock::now();
}

// Delivers every unfinished sequence: first those in slots, then those not started.
void GenerateRun::cancelRest() {
  for (Sequence& sequence : slots_) {
    if (sequence.done) continue;
    sequence.out.finish = FinishReason::kCancelled;
    sequence.done = true;
    deliver(sequence);
  }
  auto neverStarted = [&](size_t request, int64_t from) {
    for (int64_t sample = from; sample < requests_[request].numSamples; ++sample) {
      GeneratedSequence out;
      out.request = static_cast<int64_t>(request);
      out.sample = sample;
      out.finish = FinishReason::kCancelled;
      onSequence_(std::move(out));
    }
  };
  for (size_t r = group_.request; r < group_.end; ++r) {
    neverStarted(r, r == group_.request ? group_.sample : 0);
  }
  for (size_t r = nextRequest_; r < requests_.size(); ++r) neverStarted(r, 0);
}

}  // namespace

GenerateStats generate(const Model& model, const std::vector<GenerateRequest>& requests,
                       const GenerateOptions& options,
                       const std::function<void(GeneratedSequence&&)>& onSequence,
                       const Cancel& cancel) {
  const c10::NoGradGuard noGrad;
  checkRequests(model, requests, options);
  const c10::OptionalDeviceGuard guard(model.device);
  return GenerateRun(model, requests, options, onSequence, cancel).run();
}

}  // namespace acoer
