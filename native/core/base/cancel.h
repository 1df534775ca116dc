// A flag that any thread may raise and that long calls check between tokens or layers.
#pragma once

#include <atomic>

#include "base/error.h"

namespace acoer {

class Cancel {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  // Throws kCancelled once requested.
  void check() const {
    if (requested()) fail(ErrorCode::kCancelled, "the call was cancelled");
  }

 private:
  std::atomic<bool> requested_{false};
};

}  // namespace acoer
