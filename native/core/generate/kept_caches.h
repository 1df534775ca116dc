// Keys and values of sequences that have ended, for requests that continue them: a conversation's
// next turn begins with all of the last one.
#pragma once

#include <list>

#include "generate/kv_cache.h"

namespace acoer {

class KeptCaches {
 public:
  // `positions`: what all of them may take together. The one used longest ago gives way.
  explicit KeptCaches(int64_t positions) : limit_(positions) {}

  struct Prefix {
    const KvCache* cache = nullptr;  // null: nothing that is worth it
    int64_t positions = 0;
  };
  // The longest beginning of `promptIds` without its last id, which is left to the decode steps.
  // Valid until the next keep().
  Prefix longest(int64_t policy, const std::vector<int32_t>& promptIds);

  bool keepsSome() const { return limit_ > 0; }
  // `cache` has one slot, with the keys and values of `ids`. What they continue is dropped.
  void keep(int64_t policy, std::vector<int32_t> ids, KvCache&& cache);

 private:
  struct Kept {
    int64_t policy = 0;
    std::vector<int32_t> ids;
    KvCache cache;
  };

  int64_t limit_;
  std::list<Kept> all_;  // the one used last comes last
};

}  // namespace acoer
