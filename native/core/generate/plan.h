// Checks generate()'s arguments and plans the size of its KV cache.
#pragma once

#include "generate/generate.h"
#include "generate/kv_cache.h"

namespace acoer {

// Room for keys and values, in token positions.
struct KvBudget {
  int64_t positions = 0;
  int64_t maxSlots = 0;
  // All slots get their room at once, for the longest request: on a GPU, where growing would leave
  // the allocator blocks that fit nothing else, and where graphs hold the addresses.
  bool fixed = false;
};

// Positions that a sequence of this request needs while it is decoded, rounded to the cache's unit.
int64_t positionsNeeded(const GenerateRequest& request);
// Positions that its prompt needs while samples of it wait for a slot.
int64_t promptPositions(const GenerateRequest& request);

// Throws kBadArgument naming the request, the field, the rule and the value.
void checkRequests(const Model& model, const std::vector<GenerateRequest>& requests,
                   const GenerateOptions& options);

// Throws if a request does not fit even alone: kBadArgument if options.kvBytes sets the limit, else
// kOutOfMemory.
KvBudget planKvBudget(const Model& model, const std::vector<GenerateRequest>& requests,
                      const GenerateOptions& options);

}  // namespace acoer
