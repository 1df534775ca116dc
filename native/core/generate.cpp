#include "generate.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <chrono>

#include "generate_run.h"
#include "philox.h"

namespace acoer {
namespace {

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

}  // namespace

GenerateRun::GenerateRun(const Model& model, const std::vector<GenerateRequest>& requests,
                         const GenerateOptions& options,
                         const std::function<void(GeneratedSequence&&)>& onSequence,
                         const Cancel& cancel, DecodePath path)
    : model_(model),
      requests_(requests),
      onSequence_(onSequence),
      cancel_(cancel),
      budget_(planKvBudget(model, requests, options)),
      policies_(policiesOf(requests)),
      decoder_(model, policies_, longestNeeded(requests), path),
      cache_(decoder_.makeCache()) {
  for (const GenerateRequest& request : requests) {
    const auto place = std::find(policies_.begin(), policies_.end(), request.policy);
    policyOf_.push_back(place - policies_.begin());
  }
}

GenerateStats GenerateRun::run() {
  while (!cancel_.requested()) {
    refill();
    if (slots_.empty() || cancel_.requested()) break;
    step();
  }
  if (cancel_.requested()) cancelRest();
  return stats_;
}

void GenerateRun::buildRows() {
  slotOfRow_.resize(slots_.size());
  for (size_t s = 0; s < slots_.size(); ++s) slotOfRow_[s] = static_cast<int64_t>(s);
  if (policies_.size() > 1) {
    std::stable_sort(slotOfRow_.begin(), slotOfRow_.end(), [&](int64_t a, int64_t b) {
      return slots_[static_cast<size_t>(a)].policy < slots_[static_cast<size_t>(b)].policy;
    });
  }
  rows_.clear();
  draws_.clear();
  for (int64_t slot : slotOfRow_) {
    const Sequence& sequence = slots_[static_cast<size_t>(slot)];
    const GenerateRequest& request = requestOf(sequence);
    rows_.add(sequence.policy, sequence.nextId, slot, sequence.nextPosition);
    DrawRow draw;
    draw.logitsRow = static_cast<int64_t>(draws_.size());
    draw.options = &request.sampling;
    draw.uniform = samplerUniform(
        request.seed,
        static_cast<uint64_t>(request.firstSample) + static_cast<uint64_t>(sequence.out.sample),
        sequence.out.ids.size());
    draw.seen = sequence.seen ? &*sequence.seen : nullptr;
    draws_.push_back(draw);
  }
}

void GenerateRun::step() {
  const auto start = Clock::now();
  buildRows();
  ensureCapacity(static_cast<int64_t>(slots_.size()),
                 1 + *std::max_element(rows_.positions.begin(), rows_.positions.end()));
  const std::vector<Draw> draws = drawTokens(decoder_.decode(rows_, cache_), draws_);
  stats_.decodeSteps += 1;
  stats_.newTokens += static_cast<int64_t>(draws.size());
  stats_.decodeMs += millisecondsSince(start);
  for (size_t n = 0; n < draws.size(); ++n) {
    accept(slots_[static_cast<size_t>(slotOfRow_[n])], draws[n]);
  }
}

void GenerateRun::accept(Sequence& sequence, const Draw& draw) {
  const GenerateRequest& request = requestOf(sequence);
  if (!draw.finite) {
    const Place place{sequence.out.request, sequence.out.sample,
                      static_cast<int64_t>(sequence.out.ids.size())};
    fail(ErrorCode::kNotFinite,
         "generate: the logits of request " + std::to_string(place.request) + ", sample " +
             std::to_string(place.sample) + " are not finite at new token " +
             std::to_string(place.token) +
             "; the weights or the adapter hold values that are not, or are far too large",
         place);
  }
  GeneratedSequence& out = sequence.out;
  out.ids.push_back(draw.id);
  out.logprobs.push_back(draw.logprob);
  out.entropies.push_back(draw.entropy);
  if (sequence.seen) sequence.seen->insert(draw.id);
  sequence.nextId = draw.id;
  sequence.nextPosition += 1;
  const auto& stops = request.stopIds;
  if (std::find(stops.begin(), stops.end(), draw.id) != stops.end()) {
    finish(sequence, FinishReason::kStop);
  } else if (static_cast<int64_t>(out.ids.size()) == request.maxNewTokens) {
    finish(sequence, FinishReason::kLength);
  }
}

void GenerateRun::finish(Sequence& sequence, FinishReason reason) {
  sequence.done = true;
  sequence.out.finish = reason;
  onSequence_(std::move(sequence.out));
}

// Everything that has not ended, started or not, in order of request and sample per state.
void GenerateRun::cancelRest() {
  for (Sequence& sequence : slots_) {
    if (!sequence.done) finish(sequence, FinishReason::kCancelled);
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

GenerateStats generateOn(DecodePath path, const Model& model,
                         const std::vector<GenerateRequest>& requests,
                         const GenerateOptions& options,
                         const std::function<void(GeneratedSequence&&)>& onSequence,
                         const Cancel& cancel) {
  const c10::NoGradGuard noGrad;
  checkRequests(model, requests, options);
  const c10::OptionalDeviceGuard guard(model.device);
  return GenerateRun(model, requests, options, onSequence, cancel, path).run();
}

GenerateStats generate(const Model& model, const std::vector<GenerateRequest>& requests,
                       const GenerateOptions& options,
                       const std::function<void(GeneratedSequence&&)>& onSequence,
                       const Cancel& cancel) {
  return generateOn(DecodePath::kAuto, model, requests, options, onSequence, cancel);
}

}  // namespace acoer
