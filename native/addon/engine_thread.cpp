#include "engine_thread.h"

#include <ATen/Parallel.h>
#include <pthread.h>

#include <chrono>
#include <set>

#include "session.h"

namespace acoer {
namespace {

constexpr std::chrono::hours kLongWait{1};

// Never destroyed: they are used while the process ends.
std::mutex& liveMutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
std::set<EngineThread*>& liveEngines() {
  static auto* engines = new std::set<EngineThread*>;
  return *engines;
}

}  // namespace

// Holds the lock to the end, so that no engine is destroyed by another thread meanwhile.
void stopAllEngines() {
  std::lock_guard lock(liveMutex());
  for (EngineThread* engine : liveEngines()) engine->closeAndJoin();
  liveEngines().clear();
}

EngineThread::EngineThread(int threads, std::function<std::unique_ptr<Session>()> makeSession,
                           std::function<void()> ended)
    : threads_(threads) {
  thread_ = std::thread([this, makeSession = std::move(makeSession), ended = std::move(ended)] {
    main(makeSession);
    ended();
  });
  std::lock_guard lock(liveMutex());
  liveEngines().insert(this);
}

void EngineThread::main(const std::function<std::unique_ptr<Session>()>& makeSession) {
  pthread_setname_np(pthread_self(), "acoer-engine");
  at::set_num_threads(threads_);
  const std::unique_ptr<Session> session = makeSession();
  Job job;
  while (next(job)) {
    job.run(*session, *job.cancel);
    job.run = nullptr;  // frees the arguments before waiting for the next job
  }
}

bool EngineThread::next(Job& job) {
  std::unique_lock lock(mutex_);
  running_.reset();
  runningNumber_ = 0;
  // Not wait(): from GCC 12 on it needs a libstdc++ that RHEL 9 does not have (decision 261).
  while (!closed_ && waiting_.empty()) wake_.wait_for(lock, kLongWait);
  if (waiting_.empty()) return false;
  job = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = job.cancel;
  runningNumber_ = job.number;
  return true;
}

void EngineThread::submit(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    waiting_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void EngineThread::cancel(int64_t number) {
  if (number == 0) return;
  std::lock_guard lock(mutex_);
  if (running_ && runningNumber_ == number) running_->request();
  for (const Job& job : waiting_) {
    if (job.number == number) job.cancel->request();
  }
}

void EngineThread::close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    if (running_) running_->request();
    for (const Job& job : waiting_) job.cancel->request();
  }
  wake_.notify_one();
}

void EngineThread::stop() {
  {
    std::lock_guard lock(liveMutex());
    liveEngines().erase(this);
  }
  closeAndJoin();
}

void EngineThread::closeAndJoin() {
  close();
  std::lock_guard lock(joining_);
  if (thread_.joinable()) thread_.join();
}

}  // namespace acoer
