// Where the tokens of a packed batch lie: checks, positions, attention buckets, completion rows.
#pragma once

#include "forward.h"

namespace acoer {

// Throws kBadArgument naming the sequence: offsets that do not fit, ids outside the vocabulary,
// sequences longer than the model's positions, completions without a prompt token before them.
void checkSequences(const PackedSequences& batch, const ModelConfig& config);

// Attention runs on buckets of sequences of similar length, padded on the right to the longest of
// the bucket (harmless under a causal mask). The padded rows of all buckets lie end to end.
struct AttentionBucket {
  int64_t sequences = 0;
  int64_t length = 0;  // of the longest
};

struct PackedLayout {
  int64_t tokens = 0;      // T
  int64_t paddedRows = 0;  // P: sum of sequences * length over the buckets
  std::vector<AttentionBucket> buckets;
  bool identity = false;    // the padded rows are the packed rows in the same order
  at::Tensor toPadded_P;    // the packed row to read for each padded row (padding: any of its own)
  at::Tensor toPacked_T;    // the padded row of each packed row
  at::Tensor isPadding_P;   // bool; undefined when there is none
  at::Tensor ids_T;         // int64
  at::Tensor positions_T;   // int64
  at::Tensor completion_N;  // the row before each completion token: its log-prob is made there
  at::Tensor targets_N;     // the completion tokens themselves
};
PackedLayout makeLayout(const PackedSequences& batch, at::Device device);

}  // namespace acoer
