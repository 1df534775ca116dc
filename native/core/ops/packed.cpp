#include "ops/packed.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>

#include "ops/ops.h"

namespace acoer {

namespace {

// A bucket takes sequences down to this share of its longest: at most a quarter of its work is
// spent on padding.
constexpr double kShortestShare = 0.75;
// Sequences this short share a bucket: another bucket would cost more calls than the padding it
// saves.
constexpr int64_t kSmallBucketLength = 32;

at::Tensor indexTensor(const std::vector<int64_t>& values, at::Device device) {
  return onDevice(
      at::from_blob(const_cast<int64_t*>(values.data()), {std::ssize(values)}, at::kLong).clone(),
      device);
}

// The sequences grouped into buckets, longest first; in the same order when all are equal.
std::vector<std::vector<SequenceRows>> groupByLength(std::vector<SequenceRows> sequences) {
  std::stable_sort(
      sequences.begin(), sequences.end(),
      [](const SequenceRows& a, const SequenceRows& b) { return a.length > b.length; });
  std::vector<std::vector<SequenceRows>> groups;
  for (const SequenceRows& sequence : sequences) {
    const int64_t longest = groups.empty() ? 0 : groups.back().front().length;
    const bool fits = !groups.empty() && (static_cast<double>(sequence.length) >=
                                              kShortestShare * static_cast<double>(longest) ||
                                          longest <= kSmallBucketLength);
    if (!fits) groups.emplace_back();
    groups.back().push_back(sequence);
  }
  return groups;
}

void placeRows(at::Device device, PackedLayout& layout) {
  std::vector<int64_t> toPadded, toPacked(static_cast<size_t>(layout.tokens));
  std::vector<uint8_t> padding;
  for (const auto& group : groupByLength(layout.sequences)) {
    const int64_t longest = group.front().length;
    layout.buckets.push_back({std::ssize(toPadded), std::ssize(group), longest});
    for (const SequenceRows& sequence : group) {
      const int64_t start = sequence.own, length = sequence.length;
      for (int64_t t = 0; t < longest; ++t) {
        if (t < length) toPacked[static_cast<size_t>(start + t)] = std::ssize(toPadded);
        toPadded.push_back(start + std::min(t, length - 1));
        padding.push_back(t >= length);
      }
    }
  }
  layout.paddedRows = std::ssize(toPadded);
  layout.identity =
      std::is_sorted(toPacked.begin(), toPacked.end()) && layout.paddedRows == layout.tokens;
  layout.toPadded_P = indexTensor(toPadded, device);
  layout.toPacked_T = indexTensor(toPacked, device);
  if (layout.paddedRows > layout.tokens) {
    layout.isPadding_P = onDevice(
        at::from_blob(padding.data(), {layout.paddedRows}, at::kByte).to(at::kBool), device);
  }
}

bool samePrompt(const PackedSequences& batch, size_t a, size_t b) {
  const auto prompt = [&](size_t i) { return batch.ids.begin() + batch.offsets[i]; };
  return batch.promptLengths[a] == batch.promptLengths[b] &&
         std::equal(prompt(a), prompt(a) + batch.promptLengths[a], prompt(b));
}

}  // namespace

int64_t PackedSequences::completionTokens() const {
  int64_t total = 0;
  for (size_t b = 0; b < promptLengths.size(); ++b) {
    total += offsets[b + 1] - offsets[b] - promptLengths[b];
  }
  return total;
}

PackedSequences PackedSequences::slice(size_t begin, size_t end) const {
  PackedSequences part;
  const int64_t first = offsets[begin];
  part.ids.assign(ids.begin() + first, ids.begin() + offsets[end]);
  for (size_t b = begin; b <= end; ++b) part.offsets.push_back(offsets[b] - first);
  part.promptLengths.assign(promptLengths.begin() + static_cast<int64_t>(begin),
                            promptLengths.begin() + static_cast<int64_t>(end));
  return part;
}

void checkSequences(const PackedSequences& batch, const ModelSpec& spec) {
  const auto& [ids, offsets, promptLengths, runs] = batch;
  const auto bad = [](const auto&... what) { fail(ErrorCode::kBadShape, what...); };
  if (promptLengths.empty()) fail(ErrorCode::kBadArgument, "the batch has no sequence");
  if (offsets.size() != promptLengths.size() + 1) {
    bad("offsets has ", offsets.size(), " numbers; ", promptLengths.size(), " sequences need ",
        promptLengths.size() + 1);
  }
  if (offsets.front() != 0 || offsets.back() != std::ssize(ids)) {
    bad("offsets must run from 0 to the number of ids, ", ids.size());
  }
  for (size_t b = 0; b < promptLengths.size(); ++b) {
    const std::string which = "sequence " + std::to_string(b);
    const int64_t length = offsets[b + 1] - offsets[b], prompt = promptLengths[b];
    if (length < 1) bad(which, " is empty or its offsets run backwards");
    if (prompt < 1 || prompt > length) {
      bad(which, " has ", length, " tokens and promptLength ", prompt,
          "; it must be from 1 to the number of tokens");
    }
    if (length > spec.maxPositions) {
      fail(ErrorCode::kBadArgument, which, " has ", length, " tokens; the model takes at most ",
           spec.maxPositions);
    }
  }
  const bool rises =
      std::adjacent_find(runs.begin(), runs.end(), std::greater_equal()) == runs.end();
  if (!runs.empty() && (runs.front() != 0 || runs.back() != batch.count() || !rises)) {
    bad("runs must rise from 0 to the number of sequences, ", batch.count());
  }
  checkVocabulary(ids, spec, "ids");
}

void checkVocabulary(const std::vector<int32_t>& ids, const ModelSpec& spec,
                     const std::string& what) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < spec.vocabSize) continue;
    fail(ErrorCode::kBadArgument, what, "[", i, "] is token id ", ids[i],
         "; the model's vocabulary has ", spec.vocabSize, " tokens, numbered from 0");
  }
}

PackedLayout makeLayout(const PackedSequences& batch, at::Device device, bool sharesPrompts) {
  PackedLayout layout;
  std::vector<int64_t> ids, positions, rows, targets;
  for (size_t b = 0; b < batch.promptLengths.size(); ++b) {
    const int64_t start = batch.offsets[b], length = batch.offsets[b + 1] - start;
    SequenceRows sequence{.own = layout.tokens, .length = length};
    if (sharesPrompts && b > 0 && samePrompt(batch, b - 1, b)) {
      const SequenceRows& before = layout.sequences.back();
      sequence.prefix = before.shared > 0 ? before.prefix : before.own;
      sequence.shared = batch.promptLengths[b] - 1;
    }
    for (int64_t t = sequence.shared; t < length; ++t) {
      const int32_t id = batch.ids[static_cast<size_t>(start + t)];
      ids.push_back(id);
      positions.push_back(t);
      if (t < batch.promptLengths[b]) continue;
      rows.push_back(layout.tokens + t - sequence.shared - 1);
      targets.push_back(id);
    }
    layout.tokens += length - sequence.shared;
    layout.longest = std::max(layout.longest, length);
    layout.sequences.push_back(sequence);
  }
  layout.paddedRows = layout.tokens;
  if (!sharesPrompts) placeRows(device, layout);
  layout.ids_T = indexTensor(ids, device);
  layout.positions_T = indexTensor(positions, device);
  layout.completion_N = indexTensor(rows, device);
  layout.targets_N = indexTensor(targets, device);
  return layout;
}

}  // namespace acoer
