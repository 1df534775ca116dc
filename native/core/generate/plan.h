// Checks generate()'s arguments and plans the size of its KV cache.
#pragma once

#include "generate/generate.h"
#include "generate/kv_cache.h"

namespace acoer {

// Room for keys and values, in token positions.
struct KvBudget {
  int64_t bytes = 0;
  int64_t bytesPerPosition = 0;
  int64_t positions = 0;
  int64_t maxSlots = 0;
  int64_t pagePositions = 0;   // of a page of the cache
  bool sharesPrompts = false;  // samples read whole tiles of their prompt where one copy lies
  // Pages that are allocated at once, on a GPU, where growing would leave the allocator blocks that
  // fit nothing else, and where graphs hold the addresses; 0: the cache grows.
  int64_t fixedPages = 0;
  int64_t pagesFor(int64_t count) const { return (count + pagePositions - 1) / pagePositions; }
};

// Prompts are prefilled together up to this many tokens: enough rows to use the weights well.
constexpr int64_t kPrefillTokens = 2048;

// What a decoder must have room for.
struct DecoderNeeds {
  std::vector<const Policy*> policies;  // as Decoder::orderPolicies returns them
  int64_t sequences = 0;                // most at a time; 0: nothing will be decoded
  int64_t longest = 1;                  // positions of a sequence
  int64_t longestPrompt = 0;            // positions of a prompt while its samples wait
  int64_t stopIds = 0;                  // most of a sequence
  bool penalties = false;               // some sequence has a repetition penalty
};
DecoderNeeds needsOf(const std::vector<GenerateRequest>& requests);
DecoderNeeds needsOf(const OpenDecoder& open, const GenerateOptions& options);

// Positions that a sequence of this request needs while it is decoded, rounded to the cache's unit.
int64_t positionsNeeded(const GenerateRequest& request);
// Positions that its prompt needs while samples of it wait for a slot.
int64_t promptPositions(const GenerateRequest& request);

// Most rows of a decode step in which proposed tokens take part: up to there a step takes about as
// long as its weights and caches take to be read.
constexpr int64_t kRowsWorthItOnCpu = 16, kRowsWorthItOnGpu = 128;
// Of so many sequences, with what is proposed for them.
int64_t rowsOfStep(const Model& model, const GenerateOptions& options, int64_t sequences);

// How messages about a request begin.
std::string nameOf(size_t request);

// Whether the sampler's kernels can tell apart too few logits at its temperature
// (sampler_logits.cuh).
bool isTooCold(const GenerateRequest& request);
constexpr const char* kTooCold = "acoer's CUDA kernels need temperatures of 0 or at least 1e-6";

// All throw kBadArgument naming the request, the field, the rule and the value.
void checkOptions(const GenerateOptions& options);
void checkRequest(const Model& model, size_t number, const GenerateRequest& request);
void checkGroups(const std::vector<GenerateRequest>& requests, const GenerateOptions& options);
void checkOpenDecoder(const Model& model, const OpenDecoder& open);

// `kernels`: those that decode. Throws if a request does not fit even alone, or no sequence of an
// open decoder would: kBadArgument if options.kvBytes sets the limit, else kOutOfMemory.
KvBudget planKvBudget(const Model& model, const DecoderNeeds& needs,
                      const std::vector<GenerateRequest>& requests, const GenerateOptions& options,
                      const GpuKernels* kernels);
// The first of these for one request.
void checkFits(const Model& model, size_t number, const GenerateRequest& request,
               const KvBudget& budget, const GenerateOptions& options);

}  // namespace acoer
