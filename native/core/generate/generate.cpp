#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "generate/run.h"

namespace acoer {
namespace {

KernelChoice chooseKernels(const Model& model, const std::vector<GenerateRequest>& requests,
                           const GenerateOptions& options) {
  if (options.path == DecodePath::kTensorOps) return {};
  if (model.kernels == nullptr) {
    return {nullptr, model.device.is_cpu() ? "" : gpuKernels(model.device).reason};
  }
  const std::string& fault = model.kernelFaults[KernelFamily::kDecode];
  if (!fault.empty()) return {nullptr, fault};
  if (std::any_of(requests.begin(), requests.end(), isTooCold)) {
    return {nullptr, kTooCold};
  }
  const std::string reason = gpuKernelsDoNotFit(model, options.kvCacheDtype);
  return {reason.empty() ? model.kernels : nullptr, reason};
}

}  // namespace

GenerateRun::GenerateRun(const Model& model, const DecoderNeeds& needs,
                         std::vector<GenerateRequest> requests, const OpenDecoder* open,
                         const GenerateOptions& options, const OnSequence& onSequence,
                         const Cancel& cancel)
    : model_(model),
      open_(open),
      closed_(open == nullptr),
      options_(options),
      onSequence_(onSequence),
      cancel_(cancel),
      kernels_(chooseKernels(model, requests, options)),
      budget_(planKvBudget(model, needs, requests, options, kernels_.kernels)),
      policies_(needs.policies),
      decoder_(model, policies_, needs.longest, options.path, kernels_.kernels,
               options.kvCacheDtype),
      cache_(decoder_.makeCache()),
      pages_(budget_.pagePositions),
      kept_(open == nullptr ? 0 : open->keepBytes / budget_.bytesPerPosition) {
  stats_.fallback = kernels_.reason;
  countGroups(requests);
  for (GenerateRequest& request : requests) admit(std::move(request));
  if (needs.sequences == 0) return;
  if (budget_.fixedPages > 0) cache_.resize(budget_.fixedPages, budget_.pagePositions, 0, 0);
  if (kernels_.kernels == nullptr) return;
  gpuSteps_ = std::make_unique<GpuSteps>(model, *kernels_.kernels, decoder_, cache_, needs,
                                         rowsOfStep(model_, options_, budget_.maxSlots));
}

GenerateStats GenerateRun::run() {
  if (open_ != nullptr) open_->onOpen();
  while (!cancel_.requested()) {
    takeArrivals();
    if (enoughGroups()) break;
    refill();
    if (cancel_.requested() || (slots_.empty() && closed_)) break;
    if (slots_.empty()) continue;
    step();
    report(stats_.promptTokens);
  }
  const bool cancelled = cancel_.requested();
  if (cancelled) takeArrivals();  // what was added before is cancelled with the rest
  endRest(cancelled ? FinishReason::kCancelled : FinishReason::kPartial);
  if (gpuSteps_) stats_.fallback = gpuSteps_->noGraphsBecause();
  return stats_;
}

void GenerateRun::admit(GenerateRequest&& request) {
  const auto place = std::find(policies_.begin(), policies_.end(), request.policy);
  requests_.add(std::move(request), place - policies_.begin());
}

void GenerateRun::countGroups(const std::vector<GenerateRequest>& requests) {
  samplesLeft_.resize(options_.completeGroups.size());
  if (samplesLeft_.empty()) return;
  for (const GenerateRequest& request : requests) {
    samplesLeft_[static_cast<size_t>(request.group)] += request.numSamples;
  }
}

bool GenerateRun::enoughGroups() const {
  int64_t complete = 0;
  for (size_t group = 0; group < samplesLeft_.size(); ++group) {
    if (samplesLeft_[group] == 0) complete += 1;
    if (complete < options_.completeGroups[group]) return false;
  }
  return !samplesLeft_.empty();
}

void GenerateRun::streamTokens(Sequence& sequence) const {
  const GeneratedSequence& out = sequence.out;
  if (!options_.onTokens || !requestOf(sequence).streams) return;
  if (sequence.seenTokens == out.ids.size()) return;
  const auto from = static_cast<std::ptrdiff_t>(sequence.seenTokens);
  options_.onTokens({.request = out.request,
                     .sample = out.sample,
                     .ids = {out.ids.begin() + from, out.ids.end()},
                     .logprobs = {out.logprobs.begin() + from, out.logprobs.end()}});
  sequence.seenTokens = out.ids.size();
}

// Hands out its new tokens, and the sequence if it is done. Throws if it cannot go on.
void GenerateRun::deliver(Sequence& sequence) {
  if (!sequence.finite) {
    const Place place{sequence.out.request, sequence.out.sample, std::ssize(sequence.out.ids)};
    throw EngineError(
        ErrorCode::kNotFinite,
        c10::str(
            "generate: the logits of request ", place.request, ", sample ", place.sample,
            " are not finite at new token ", place.token,
            "; the weights or the adapter contain values that are not finite or far too large"),
        place);
  }
  streamTokens(sequence);
  if (!sequence.done) return;
  keepCache(sequence);
  pages_.leave(slotOf(sequence));
  stats_.newTokens += std::ssize(sequence.out.ids);
  ended_ += 1;
  if (!samplesLeft_.empty()) samplesLeft_[static_cast<size_t>(requestOf(sequence).group)] -= 1;
  sequence.shared.reset();
  sequence.text.reset();
  requests_.sampleEnded(static_cast<size_t>(sequence.out.request));
  onSequence_(std::move(sequence.out));
}

bool GenerateRun::reportIsDue() const {
  return options_.onProgress && millisecondsSince(reported_) >= options_.progressEveryMs;
}

void GenerateRun::report(int64_t promptTokens) {
  if (cancel_.requested() || !reportIsDue()) return;
  GenerateProgress progress{
      .ended = ended_, .total = requests_.samples(), .promptTokens = promptTokens, .inFlight = {}};
  for (const Sequence& sequence : slots_) {
    if (sequence.done) continue;
    const GeneratedSequence& out = sequence.out;
    for (const int64_t value : {out.request, out.sample, std::ssize(out.ids)}) {
      progress.inFlight.push_back(static_cast<int32_t>(value));
    }
  }
  options_.onProgress(std::move(progress));
  reported_ = Clock::now();
}

void GenerateRun::endEarly(Sequence& sequence, FinishReason why) {
  sequence.out.finish = why;
  sequence.done = true;
  deliver(sequence);
}

// Delivers the samples of a request from `from` on, none of which is in a slot.
void GenerateRun::neverStarted(size_t request, int64_t from, FinishReason why) {
  const int64_t samples = requests_.samplesOf(request);
  if (from < samples) requests_.limitSamples(request, from);
  for (int64_t sample = from; sample < samples; ++sample) {
    GeneratedSequence out;
    out.request = static_cast<int64_t>(request);
    out.sample = sample;
    out.finish = why;
    ended_ += 1;
    requests_.sampleEnded(request);
    onSequence_(std::move(out));
  }
}

void GenerateRun::cancelRequest(size_t request) {
  if (!requests_.isLeft(request)) return;
  for (Sequence& sequence : slots_) {
    if (sequence.done || sequence.out.request != static_cast<int64_t>(request)) continue;
    endEarly(sequence, FinishReason::kCancelled);
  }
  const bool inGroup = !group_.empty() && request == group_.request;
  const bool waits = request >= nextRequest_ || (!group_.empty() && request > group_.request);
  if (!inGroup && !waits) return;
  neverStarted(request, inGroup ? group_.sample : 0, FinishReason::kCancelled);
}

// Delivers every unfinished sequence: first those in slots, then those not started.
void GenerateRun::endRest(FinishReason why) {
  for (Sequence& sequence : slots_) {
    if (!sequence.done) endEarly(sequence, why);
  }
  for (size_t r = group_.request; r < group_.end; ++r) {
    neverStarted(r, r == group_.request ? group_.sample : 0, why);
  }
  for (size_t r = nextRequest_; r < requests_.end(); ++r) neverStarted(r, 0, why);
}

GenerateStats generate(const Model& model, const std::vector<GenerateRequest>& requests,
                       const GenerateOptions& options, const OnSequence& onSequence,
                       const Cancel& cancel) {
  const c10::NoGradGuard noGrad;
  checkOptions(options);
  for (size_t i = 0; i < requests.size(); ++i) checkRequest(model, i, requests[i]);
  checkGroups(requests, options);
  const c10::OptionalDeviceGuard guard(model.device);
  return GenerateRun(model, needsOf(requests), requests, nullptr, options, onSequence, cancel)
      .run();
}

GenerateStats decodeArrivals(const Model& model, const OpenDecoder& open,
                             const GenerateOptions& options, const OnSequence& onSequence,
                             const Cancel& cancel) {
  const c10::NoGradGuard noGrad;
  checkOptions(options);
  checkOpenDecoder(model, open);
  const c10::OptionalDeviceGuard guard(model.device);
  return GenerateRun(model, needsOf(open, options), {}, &open, options, onSequence, cancel).run();
}

}  // namespace acoer
