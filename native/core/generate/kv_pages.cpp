#include "generate/kv_pages.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace acoer {
namespace {

// Whether all can end one after the other. One that ends gives back what it holds, so those that
// need least come first.
bool allCanEnd(std::vector<KvPages::Claim> claims, int64_t limit) {
  int64_t free = limit;
  for (const auto& claim : claims) free -= claim.held;
  if (free < 0) return false;
  const auto needs = [](const KvPages::Claim& claim) { return claim.most - claim.held; };
  std::sort(claims.begin(), claims.end(),
            [&](const auto& a, const auto& b) { return needs(a) < needs(b); });
  for (const auto& claim : claims) {
    if (needs(claim) > free) return false;
    free += claim.held;
  }
  return true;
}

}  // namespace

std::vector<KvPages::Claim> KvPages::claims(const Slot* taker, int64_t more) const {
  std::vector<Claim> all;
  for (const Slot& slot : slots_) {
    if (slot.most > 0) all.push_back({slot.held() + (&slot == taker ? more : 0), slot.most});
  }
  return all;
}

// Of a whole sequence. Those still in slots count by what they hold so far: the maximum likelihood
// estimate for exponential lengths of which some are not known to their end. Before the first end
// it is infinite, so that every sequence counts with the most it may hold.
double KvPages::expectedPages() const {
  if (ended_ == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(heldByEnded_ + held_) / static_cast<double>(ended_);
}

bool KvPages::admits(const std::vector<Claim>& more, int64_t limit) const {
  int64_t most = most_;
  for (const Claim& claim : more) most += claim.most;
  if (most <= limit) return true;
  std::vector<Claim> all = claims();
  all.insert(all.end(), more.begin(), more.end());
  const double expected = expectedPages();
  double sum = 0;
  for (const Claim& claim : all) {
    const auto length = std::min(expected, static_cast<double>(claim.most));
    sum += std::max(length, static_cast<double>(claim.held));
  }
  return sum <= static_cast<double>(limit) && allCanEnd(std::move(all), limit);
}

void KvPages::enter(int64_t slot, const Claim& claim) {
  if (slot == static_cast<int64_t>(slots_.size())) slots_.emplace_back();
  Slot& entered = slots_[static_cast<size_t>(slot)];
  entered.most = claim.most;
  sequences_ += 1;
  most_ += claim.most;
  take(entered, claim.held);
}

// The lowest pages first, so that the cache has to grow as little as possible.
void KvPages::take(Slot& slot, int64_t count) {
  held_ += count;
  for (; count > 0; --count) {
    if (free_.empty()) free_.insert(static_cast<int32_t>(used_++));
    slot.pages.push_back(*free_.begin());
    free_.erase(free_.begin());
  }
}

bool KvPages::reach(int64_t slot, int64_t positions, int64_t limit) {
  Slot& taker = slots_[static_cast<size_t>(slot)];
  const int64_t missing = std::min(pagesFor(positions), taker.most) - taker.held();
  if (missing <= 0) return true;
  if (most_ > limit && !allCanEnd(claims(&taker, missing), limit)) return false;
  take(taker, missing);
  return true;
}

void KvPages::leave(int64_t slot) {
  Slot& left = slots_[static_cast<size_t>(slot)];
  free_.insert(left.pages.begin(), left.pages.end());
  ended_ += 1;
  heldByEnded_ += left.held();
  sequences_ -= 1;
  held_ -= left.held();
  most_ -= left.most;
  left = {};
}

void KvPages::move(int64_t from, int64_t to) {
  slots_[static_cast<size_t>(to)] = std::exchange(slots_[static_cast<size_t>(from)], {});
}

}  // namespace acoer
