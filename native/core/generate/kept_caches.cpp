#include "generate/kept_caches.h"

#include <algorithm>

namespace acoer {
namespace {

// Fewer positions than this are prefilled as fast as they are copied.
constexpr int64_t kFewestPositions = 16;

int64_t sharedBeginning(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const auto [end, _] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return end - a.begin();
}

}  // namespace

KeptCaches::Prefix KeptCaches::longest(int64_t policy, const std::vector<int32_t>& promptIds) {
  auto best = all_.end();
  int64_t positions = kFewestPositions - 1;
  for (auto kept = all_.begin(); kept != all_.end(); ++kept) {
    if (kept->policy != policy) continue;
    const int64_t shared =
        std::min(sharedBeginning(kept->ids, promptIds), std::ssize(promptIds) - 1);
    if (shared <= positions) continue;
    best = kept;
    positions = shared;
  }
  if (best == all_.end()) return {};
  all_.splice(all_.end(), all_, best);
  return {&best->cache, positions};
}

void KeptCaches::keep(int64_t policy, std::vector<int32_t> ids, KvCache&& cache) {
  all_.remove_if([&](const Kept& kept) {
    return kept.policy == policy && sharedBeginning(kept.ids, ids) == std::ssize(kept.ids);
  });
  all_.push_back({policy, std::move(ids), std::move(cache)});
  int64_t taken = 0;
  for (const Kept& kept : all_) taken += kept.cache.positions();
  for (; taken > limit_; all_.pop_front()) taken -= all_.front().cache.positions();
}

}  // namespace acoer
