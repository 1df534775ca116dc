// Checks of generate()'s arguments and the room its KV cache may take.
#pragma once

#include "generate.h"
#include "kv_cache.h"

namespace acoer {

// Room for keys and values, in positions of one sequence.
struct KvBudget {
  int64_t positions = 0;
  int64_t maxSlots = 0;
};

// Positions a sequence of this request needs while it is decoded, rounded to the cache's unit.
int64_t positionsNeeded(const GenerateRequest& request);
// Positions its prompt needs while samples of it wait for a slot.
int64_t promptPositions(const GenerateRequest& request);

// Throws kBadArgument: which request, what is wrong, what would be right.
void checkRequests(const Model& model, const std::vector<GenerateRequest>& requests,
                   const GenerateOptions& options);

// Throws when a request does not fit even alone: kBadArgument under options.kvBytes, kOutOfMemory
// without.
KvBudget planKvBudget(const Model& model, const std::vector<GenerateRequest>& requests,
                      const GenerateOptions& options);

}  // namespace acoer
