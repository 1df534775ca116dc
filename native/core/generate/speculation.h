// Proposals for lossless speculation: what followed the same two tokens before, in a sequence's own
// text or in that of its group (prompt lookup; vLLM's method "ngram"). A proposed token is computed
// beside the one before it and kept while it is what is drawn at its place anyway.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace acoer {

// Where each two tokens were followed by another, the last time. A place is a text and the index of
// what followed.
class FollowedPairs {
 public:
  struct Place {
    const std::vector<int32_t>* text = nullptr;  // null: the two have not been met
    size_t at = 0;
  };
  // For text[at], which has two tokens before it.
  void add(const std::vector<int32_t>& text, size_t at);
  void addUnlessKnown(const std::vector<int32_t>& text, size_t at);
  // What followed the last two tokens of `text`.
  Place find(const std::vector<int32_t>& text) const;

 private:
  std::unordered_map<uint64_t, Place> places_;
};

// The texts of one group, those of ended sequences among them.
struct GroupTexts {
  std::deque<std::vector<int32_t>> texts;  // prompts and new tokens; stay where they are
  FollowedPairs pairs;
};

// What a sequence has in its group.
class SpeculativeText {
 public:
  // `drawn`: the last so many of promptIds were drawn by an earlier call.
  SpeculativeText(std::shared_ptr<GroupTexts> group, const std::vector<int32_t>& promptIds,
                  int64_t drawn);
  void append(int32_t id);
  // Up to `most` tokens that may come next: from its own new tokens, else from the group's.
  std::vector<int32_t> propose(int64_t most) const;

 private:
  void addPair(size_t at);

  std::shared_ptr<GroupTexts> group_;
  std::vector<int32_t>* text_;
  FollowedPairs own_;
};

// The groups with sequences in slots.
class SpeculativeGroups {
 public:
  SpeculativeText enter(int64_t group, const std::vector<int32_t>& promptIds, int64_t drawn);

 private:
  std::map<int64_t, std::weak_ptr<GroupTexts>> groups_;
};

// How many of `proposed` tokens each sequence may have computed beside its own if all together are
// at most `room`: the first of each sequence before the second of any, since later ones are right
// less often.
std::vector<int64_t> sharedRoom(std::span<const int64_t> proposed, int64_t room);

}  // namespace acoer
