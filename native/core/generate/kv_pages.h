// Which pages of the KV cache each sequence holds, and which of them may take more.
//
// A sequence takes a page when it gets there, so sequences may enter that could not all reach their
// last position at a time. Two rules keep that safe. A page is given only if afterwards all could
// still end one after the other (the banker's algorithm): none is ever thrown out. And a sequence
// enters only if those in slots, each at its expected length, have room: few ever have to wait.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace acoer {

class KvPages {
 public:
  // `positions`: of a page.
  explicit KvPages(int64_t positions) : positions_(positions) {}

  // In pages.
  struct Claim {
    int64_t held = 0;
    int64_t most = 0;  // that it may come to hold
  };

  int64_t positions() const { return positions_; }
  int64_t pagesFor(int64_t positions) const { return (positions + positions_ - 1) / positions_; }

  // Whether sequences may enter beside those in slots. `limit`: pages that all may hold together.
  bool admits(const std::vector<Claim>& more, int64_t limit) const;
  // An admitted one enters an empty slot, or the one behind the last.
  void enter(int64_t slot, const Claim& claim);
  // Takes what its first `positions` positions need; false, and nothing is taken, if it has to wait
  // until others have ended.
  bool reach(int64_t slot, int64_t positions, int64_t limit);
  void leave(int64_t slot);
  // Into an empty slot.
  void move(int64_t from, int64_t to);

  // In the order of the sequence's positions. Valid until it takes more or leaves.
  std::span<const int32_t> of(int64_t slot) const {
    return slots_[static_cast<size_t>(slot)].pages;
  }
  int64_t sequences() const { return sequences_; }
  // The most that the sequences in slots may come to hold.
  int64_t most() const { return most_; }
  // Pages from 0 on that have been given at a time.
  int64_t used() const { return used_; }

 private:
  struct Slot {
    std::vector<int32_t> pages;
    int64_t most = 0;  // 0: empty
    int64_t held() const { return static_cast<int64_t>(pages.size()); }
  };
  // Of those in slots, as if `taker` held so many pages more.
  std::vector<Claim> claims(const Slot* taker = nullptr, int64_t more = 0) const;
  double expectedPages() const;
  void take(Slot& slot, int64_t count);

  int64_t positions_;
  std::vector<Slot> slots_;
  std::set<int32_t> free_;  // below used_
  int64_t used_ = 0;
  int64_t sequences_ = 0, held_ = 0, most_ = 0;  // of those in slots
  int64_t ended_ = 0, heldByEnded_ = 0;
};

}  // namespace acoer
