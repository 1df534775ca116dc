// The thread that runs an engine's jobs, in the order they were submitted. It knows nothing about
// JavaScript.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/cancel.h"

namespace acoer {

class Session;

struct Job {
  int64_t number = 0;  // chosen by the caller; 0: cannot be cancelled by number
  std::shared_ptr<Cancel> cancel = std::make_shared<Cancel>();
  // Must not throw. Also runs if it was cancelled while queued, to report the cancellation.
  std::function<void(Session&, const Cancel&)> run;
};

class EngineThread {
 public:
  // Starts the thread. On it, `makeSession` runs first, and `ended` last, after the session has
  // been destroyed.
  EngineThread(int threads, std::function<std::unique_ptr<Session>()> makeSession,
               std::function<void()> ended);
  ~EngineThread() { stop(); }
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Drops the job after close() was called.
  void submit(Job job);
  // Cancels the job with this number, running or queued.
  void cancel(int64_t number);
  // Accepts no more jobs and cancels the running and the queued ones. Does not wait for the thread
  // to end.
  void close();
  // Calls close() and waits for the thread to end. Idempotent.
  void stop();

 private:
  friend void stopAllEngines();
  void closeAndJoin();
  void main(const std::function<std::unique_ptr<Session>()>& makeSession);
  // Waits for the next job; false once the queue is closed and empty.
  bool next(Job& job);

  const int threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> waiting_;
  std::shared_ptr<Cancel> running_;
  int64_t runningNumber_ = 0;
  bool closed_ = false;
  std::mutex joining_;
  std::thread thread_;
};

// Stops every engine of the process and waits for its thread.
void stopAllEngines();

}  // namespace acoer
