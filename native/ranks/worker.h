// Threads for calls that wait for other processes, and promises for their results.
#pragma once

#include <napi.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "channel.h"

namespace acoer::ranks {

// Makes a JavaScript value of a result, on JavaScript's thread.
using Pack = std::function<Napi::Value(Napi::Env)>;

// The message of the exception being handled, without a stack of C++ frames.
std::string currentMessage();

// A thread that runs what it is given, one after another.
//
// A call may wait for ever: nothing ends a collective whose peer is silent. The thread then
// outlives its owner, which is why what it works with is shared and never a reference.
class Worker {
 public:
  Worker();
  ~Worker() { close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `work` on the thread. The promise is rejected with the message of what it throws.
  // `keepsAlive`: the event loop goes on until the call has ended.
  Napi::Value run(Napi::Env env, std::function<Pack()> work, bool keepsAlive);

  // Runs nothing more. Waits for the thread unless a call is running.
  void close();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<std::function<void()>> jobs;
    bool busy = false;
    bool closed = false;
  };
  static void main(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace acoer::ranks
