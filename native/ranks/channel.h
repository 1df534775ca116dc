// The way from a thread to JavaScript, for threads that may outlive it.
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>

namespace acoer::ranks {

// Whether JavaScript is still there. Node frees what it has for threads when it ends, and nothing
// of it may be touched from then on.
struct Reach {
  std::mutex mutex;
  bool gone = false;
};

// Once, when the addon is loaded.
void watchReach(Napi::Env env);

// Values for one JavaScript function. Copies share it.
class Channel {
 public:
  // `keepsAlive`: the event loop goes on until `release`.
  Channel(Napi::Env env, const Napi::Function& function, bool keepsAlive);

  // Queues a call of `take(env, function, value)`, which owns the value and gets a null `env` when
  // JavaScript has ended meanwhile. Returns false, and frees the value, when it has ended before.
  template <typename T>
  bool call(std::unique_ptr<T> value, void (*take)(Napi::Env, Napi::Function, T*)) {
    const std::lock_guard lock(reach_->mutex);
    if (reach_->gone || state_->released) return false;
    if (state_->function.NonBlockingCall(value.get(), take) != napi_ok) {
      state_->released = true;  // by Node, with this answer
      return false;
    }
    value.release();
    return true;
  }
  void release();

 private:
  struct State {
    Napi::ThreadSafeFunction function;
    bool released = false;
  };
  std::shared_ptr<Reach> reach_;
  std::shared_ptr<State> state_;
};

}  // namespace acoer::ranks
