// What JavaScript tells an open decoder while it runs. Written on the JavaScript thread and emptied
// on the engine thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/cancel.h"
#include "from_js.h"

namespace acoer {

class Inbox {
 public:
  struct Content {
    std::vector<HandledRequest> requests;
    std::vector<int64_t> cancelled;
    bool closed = false;
    bool isEmpty() const { return requests.empty() && cancelled.empty() && !closed; }
  };

  void add(std::vector<HandledRequest>&& requests) {
    put([&] {
      for (HandledRequest& request : requests) content_.requests.push_back(std::move(request));
    });
  }
  void cancel(int64_t request) {
    put([&] { content_.cancelled.push_back(request); });
  }
  void close() {
    put([&] { content_.closed = true; });
  }

  // Everything since the last call. `wait`: until there is something, or the call is cancelled.
  Content take(bool wait, const Cancel& call) {
    std::unique_lock lock(mutex_);
    // Cancelling a call raises a flag only, so it is looked at from time to time.
    while (wait && content_.isEmpty() && !call.requested()) wake_.wait_for(lock, kLookEvery);
    Content taken = std::move(content_);
    content_ = {};
    return taken;
  }

 private:
  static constexpr std::chrono::milliseconds kLookEvery{20};

  template <class Change>
  void put(const Change& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    wake_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Content content_;
};

}  // namespace acoer
