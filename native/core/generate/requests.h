// The requests of a run by number, in the order in which they came. What has ended is dropped, so
// that a decoder may stay open.
#pragma once

#include <deque>

#include "generate/generate.h"

namespace acoer {

class Requests {
 public:
  // `policy`: its place among the decoder's.
  void add(GenerateRequest&& request, int64_t policy) {
    entries_.push_back({std::move(request), policy, 0});
    entries_.back().left = entries_.back().request.numSamples;
    samples_ += entries_.back().left;
  }
  // One that was refused takes a number, too.
  void addRefused() {
    entries_.emplace_back();
    dropEnded();
  }
  // The number of the next one.
  size_t end() const { return dropped_ + entries_.size(); }
  // Samples that were asked for, of all requests.
  int64_t samples() const { return samples_; }

  // For requests of which something is left.
  const GenerateRequest& operator[](size_t number) const { return entry(number).request; }
  int64_t policyOf(size_t number) const { return entry(number).policy; }

  // Samples of a request that are to be made; 0 once it has ended.
  int64_t samplesOf(size_t number) const {
    return isLeft(number) ? entry(number).request.numSamples : 0;
  }
  bool isLeft(size_t number) const {
    return number >= dropped_ && number < end() && entry(number).left > 0;
  }
  // A sample has been handed out.
  void sampleEnded(size_t number) {
    entries_[number - dropped_].left -= 1;
    dropEnded();
  }
  // Samples from `from` on are not to be made. They count as left until they are handed out.
  void limitSamples(size_t number, int64_t from) {
    entries_[number - dropped_].request.numSamples = from;
  }

 private:
  struct Entry {
    GenerateRequest request;
    int64_t policy = 0;
    int64_t left = 0;  // samples not yet handed out
  };
  void dropEnded() {
    while (!entries_.empty() && entries_.front().left == 0) {
      entries_.pop_front();
      dropped_ += 1;
    }
  }
  const Entry& entry(size_t number) const { return entries_[number - dropped_]; }

  std::deque<Entry> entries_;  // keeps its elements in place while it grows
  size_t dropped_ = 0;         // from the front
  int64_t samples_ = 0;
};

}  // namespace acoer
