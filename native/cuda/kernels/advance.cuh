// Between two decode steps: each drawn token becomes the next step's input, or ends its row.
#pragma once

#include "advance_args.h"
#include "port.cuh"

namespace acoer::cuda {

__device__ __forceinline__ bool isStop(const AdvanceArgs& a, const SequenceState& sequence,
                                       int32_t id) {
  for (int32_t i = sequence.stopBegin; i < sequence.stopEnd; ++i) {
    if (a.stopIds[i] == id) return true;
  }
  return false;
}

__device__ __forceinline__ void advance(const AdvanceArgs& a) {
  const int32_t place = *a.place;
  if (!ACOER_PLANTED(160)) __syncthreads();  // every thread has read it before one changes it
  if (threadIdx.x == 0) *a.place = ACOER_PLANTED(161) || place + 1 < a.capacity ? place + 1 : 0;
  for (int32_t n = static_cast<int32_t>(threadIdx.x); n < a.rows; n += kAdvanceThreads) {
    if (!ACOER_PLANTED(162) && a.positions_N[n] < 0) continue;
    const SampledToken token = a.tokens_N[n];
    a.history_CN[int64_t{place} * a.rows + n] = token;
    SequenceState& sequence = a.sequences_N[n];
    sequence.tokensLeft -= 1;
    const bool ends = !token.finite || sequence.tokensLeft <= (ACOER_PLANTED(163) ? -1 : 0) ||
                      isStop(a, sequence, token.id);
    a.ids_N[n] = token.id;
    a.positions_N[n] = ends ? -1 : a.positions_N[n] + 1;
    if (ends) a.rows_N[n].logitsRow = -1;
    a.rows_N[n].position += 1;
  }
}

}  // namespace acoer::cuda

ACOER_KERNEL(advance, kAdvanceThreads, AdvanceArgs, advance)
