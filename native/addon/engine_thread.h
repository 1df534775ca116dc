// The one thread that runs an engine's jobs, in the order they came. Knows nothing of JavaScript.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "cancel.h"

namespace acoer {

class Session;

struct Job {
  int64_t number = 0;  // the caller's name for it; 0: cannot be cancelled by name
  std::shared_ptr<Cancel> cancel = std::make_shared<Cancel>();
  // Must not throw. Runs even when cancelled before its turn, to report that.
  std::function<void(Session&, const Cancel&)> run;
};

class EngineThread {
 public:
  // Starts the thread. `makeSession` runs on it first; `ended` runs on it last, after the session
  // is gone.
  EngineThread(int threads, std::function<std::unique_ptr<Session>()> makeSession,
               std::function<void()> ended);
  ~EngineThread() { stop(); }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Drops the job once close() was called.
  void submit(Job job);
  // Raises the flag of the job with this number, running or waiting.
  void cancel(int64_t number);
  // No further jobs; cancels what runs and waits. The thread ends by itself soon after.
  void close();
  bool closed() const;
  // close(), then waits for the thread. Idempotent.
  void stop();

 private:
  void main(const std::function<std::unique_ptr<Session>()>& makeSession);
  // Blocks for the next job; false when closed and empty.
  bool next(Job& job);

  const int threads_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;
  std::shared_ptr<Cancel> running_;
  int64_t runningNumber_ = 0;
  bool closed_ = false;
  std::mutex joining_;
  std::thread thread_;
};

// Stops every engine of the process and waits. Called by the process's 'exit' event, while the
// statics of libtorch and oneDNN still stand; at exit() alone some, made at first use, are gone
// before any handler of ours runs.
void stopAllEngines();

}  // namespace acoer
