// Packed sequences and their layout: positions, attention buckets, completion rows.
#pragma once

#include "model/model.h"

namespace acoer {

// B sequences laid end to end: tokens of b are ids[offsets[b] .. offsets[b+1]).
struct PackedSequences {
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets;        // B + 1
  std::vector<int64_t> promptLengths;  // B; completion tokens start at this position
  // Where runs of sequences begin, and B; empty: no runs. Small models on a CPU compute every run
  // as if it was alone, so that its gradient depends neither on others nor on threads.
  std::vector<int64_t> runs{};
  int64_t count() const { return std::ssize(promptLengths); }
  // The number of completion tokens of all sequences: the length of every per-token result.
  int64_t completionTokens() const;
  // Sequences [begin, end).
  PackedSequences slice(size_t begin, size_t end) const;
};

// Dropout noise is a function of this key, the sequence's ids, the token's position, the layer and
// the target, so recomputation and any split into micro-batches see the same masks.
struct DropoutKey {
  uint64_t seed = 0;
};

// Throws kBadShape, naming the sequence, for offsets and prompt lengths that do not fit (each
// sequence has at least one token, and its first token is prompt), and for runs. Throws
// kBadArgument for an empty batch, ids outside the vocabulary, and sequences longer than the
// model's positions.
void checkSequences(const PackedSequences& batch, const ModelSpec& spec);
// Throws kBadArgument naming the first id outside the vocabulary, as an element of `what`.
void checkVocabulary(const std::vector<int32_t>& ids, const ModelSpec& spec,
                     const std::string& what);

// Attention runs on buckets of sequences of similar length, padded on the right to the longest of
// the bucket (harmless under a causal mask). The padded rows of all buckets lie end to end.
struct AttentionBucket {
  int64_t first = 0;  // its first padded row
  int64_t sequences = 0;
  int64_t length = 0;  // of the longest
};

// The rows of one sequence: its first `shared` tokens have theirs from `prefix` on, computed for an
// earlier sequence of the same prompt, the others from `own` on.
struct SequenceRows {
  int64_t prefix = 0, shared = 0, own = 0;
  int64_t length = 0;  // in tokens
};

struct PackedLayout {
  int64_t tokens = 0;   // T: rows
  int64_t longest = 0;  // the most tokens of a sequence
  std::vector<SequenceRows> sequences;
  int64_t paddedRows = 0;  // P: sum of sequences * length over the buckets; T without buckets
  std::vector<AttentionBucket> buckets;
  bool identity = false;    // the padded rows are the packed rows in the same order
  at::Tensor toPadded_P;    // the packed row for each padded row (padding: its sequence's last)
  at::Tensor toPacked_T;    // the padded row of each packed row
  at::Tensor isPadding_P;   // bool; undefined if there is none
  at::Tensor ids_T;         // int64
  at::Tensor positions_T;   // int64
  at::Tensor completion_N;  // the row before each completion token, which predicts it
  at::Tensor targets_N;     // the completion tokens themselves
};
// With `sharesPrompts`, sequences that follow each other and begin with the same prompt have its
// rows but the last, which differs in what it predicts, in common; there are then no buckets.
PackedLayout makeLayout(const PackedSequences& batch, at::Device device,
                        bool sharesPrompts = false);

}  // namespace acoer
