// What the kernel that ends a decode step takes. Plain C++: the host fills it without CUDA's
// headers.
#pragma once

#include "sampler_args.h"

namespace acoer::cuda {

constexpr int kAdvanceThreads = 256;

// One sequence between two steps. What the step itself reads of it lies in arrays of their own.
struct SequenceState {
  int32_t tokensLeft;          // that it may still draw
  int32_t stopBegin, stopEnd;  // its part of stopIds
};

// One block. N rows; a row with a negative position is left out.
struct AdvanceArgs {
  const SampledToken* tokens_N;  // what the step drew
  SampledToken* history_CN;      // row *place receives them
  int32_t* place;                // counts up, from capacity - 1 back to 0
  SequenceState* sequences_N;
  SamplerRow* rows_N;    // the position counts up; logitsRow becomes -1 where the row has ended
  int32_t* ids_N;        // what the next step feeds
  int32_t* positions_N;  // -1 where the row has ended
  const int32_t* stopIds;
  int32_t rows, capacity;  // N, C
};

}  // namespace acoer::cuda
