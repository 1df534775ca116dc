#include "generate/speculation.h"

#include <algorithm>

namespace acoer {
namespace {

uint64_t pairBefore(const std::vector<int32_t>& text, size_t at) {
  return static_cast<uint64_t>(static_cast<uint32_t>(text[at - 2])) << 32 |
         static_cast<uint32_t>(text[at - 1]);
}

}  // namespace

void FollowedPairs::add(const std::vector<int32_t>& text, size_t at) {
  places_[pairBefore(text, at)] = {&text, at};
}

void FollowedPairs::addUnlessKnown(const std::vector<int32_t>& text, size_t at) {
  places_.try_emplace(pairBefore(text, at), Place{&text, at});
}

FollowedPairs::Place FollowedPairs::find(const std::vector<int32_t>& text) const {
  if (text.size() < 2) return {};
  const auto found = places_.find(pairBefore(text, text.size()));
  return found == places_.end() ? Place{} : found->second;
}

SpeculativeText::SpeculativeText(std::shared_ptr<GroupTexts> group,
                                 const std::vector<int32_t>& promptIds, int64_t drawn)
    : group_(std::move(group)), text_(&group_->texts.emplace_back(promptIds)) {
  const size_t prompt = promptIds.size() - static_cast<size_t>(drawn);
  // All samples have the same prompt, so what others made of it is worth more.
  for (size_t at = 2; at < prompt; ++at) group_->pairs.addUnlessKnown(*text_, at);
  for (size_t at = std::max<size_t>(2, prompt); at < promptIds.size(); ++at) addPair(at);
}

void SpeculativeText::append(int32_t id) {
  text_->push_back(id);
  if (text_->size() > 2) addPair(text_->size() - 1);
}

void SpeculativeText::addPair(size_t at) {
  group_->pairs.add(*text_, at);
  own_.add(*text_, at);
}

std::vector<int32_t> SpeculativeText::propose(int64_t most) const {
  FollowedPairs::Place place = own_.find(*text_);
  if (place.text == nullptr) place = group_->pairs.find(*text_);
  if (place.text == nullptr) return {};
  const auto begin = place.text->begin() + static_cast<std::ptrdiff_t>(place.at);
  return {begin, begin + std::min<std::ptrdiff_t>(most, place.text->end() - begin)};
}

SpeculativeText SpeculativeGroups::enter(int64_t group, const std::vector<int32_t>& promptIds,
                                         int64_t drawn) {
  std::erase_if(groups_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<GroupTexts> texts = groups_[group].lock();
  if (!texts) groups_[group] = texts = std::make_shared<GroupTexts>();
  return {std::move(texts), promptIds, drawn};
}

std::vector<int64_t> sharedRoom(std::span<const int64_t> proposed, int64_t room) {
  std::vector<int64_t> given(proposed.size(), 0);
  const int64_t most = proposed.empty() ? 0 : *std::max_element(proposed.begin(), proposed.end());
  for (int64_t round = 0; round < most; ++round) {
    for (size_t i = 0; i < proposed.size(); ++i) {
      if (proposed[i] <= round) continue;
      if (room == 0) return given;
      given[i] += 1;
      room -= 1;
    }
  }
  return given;
}

}  // namespace acoer
