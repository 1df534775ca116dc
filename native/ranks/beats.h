// The beats of a rank. They come from a thread with a connection of its own, so that a blocked
// event loop is not taken for a lost process.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker.h"

namespace acoer::ranks {

struct BeatSettings {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds every{};
  // A process that did nothing for longer than this was stopped: the others have given it up.
  std::chrono::milliseconds stoppedAfter{};
  // Ends such a process at once, before it can write anything.
  bool exitWhenStopped = false;
};

// Makes a connection to the store.
using Connector = std::function<c10::intrusive_ptr<c10d::Store>()>;

class Beats {
 public:
  // Beats until `stop`. After each beat `report` gets {beats, notes}: one text for each rank, what
  // it told last with the number of its beat before it, and the notes that are set, by name; or
  // {failed} with the message of the store's failure, or {stoppedMs} after a stop; both end it.
  static std::shared_ptr<Beats> start(Napi::Env env, Connector connect,
                                      const BeatSettings& settings, std::string told,
                                      Napi::Function report);
  // What the next beats tell besides their number.
  void tell(std::string text);
  // Does not wait: the thread may be in a call that never returns.
  void stop();

 private:
  struct Report;
  Beats(BeatSettings settings, std::string told) : settings_(settings), told_(std::move(told)) {}
  void main(const Connector& connect, Channel& channel);
  Report beat(c10d::Store& store, int64_t number);
  bool sleep();
  Report awake(std::chrono::steady_clock::time_point& heard, Report report) const;
  // Returns whether it goes on.
  static bool send(Channel& channel, Report report);

  const BeatSettings settings_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string told_;
  bool stopped_ = false;
};

}  // namespace acoer::ranks
