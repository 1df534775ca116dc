// Attention of one decode step in one layer: each row's query heads against the keys and values of
// its pages, split over the keys. Only the positions a row has are read.
#pragma once

#include "args.h"
#include "reduce.cuh"
#include "storage.cuh"

namespace acoer::cuda {

// Rows, their KV heads and the splits of a row, as they lie in the scratch.
__device__ __forceinline__ int64_t scratchItem(int n, int kvHeads, int j, int splits, int split) {
  return (int64_t{n} * kvHeads + j) * splits + split;
}

// In a cache without scales this is never called.
__device__ __forceinline__ float valueScale(const AttentionArgs& a, int64_t position) {
  return (ACOER_PLANTED(39) ? a.keyScales_SJL : a.valueScales_SJL)[position];
}

// One block: keys [first, first + count) of one KV head, which lie in one page, for its group of
// query heads in each row of a bundle, which are at most G queries together.
// Each key is read by a team of kLanes lanes, kPack elements a lane. The queries beyond those are
// copies of the last one whose results are dropped. C: what the cache holds; its scales are taken
// into the scores and, after their sum, into the weights.
template <class T, class C, int K, int G>
__device__ __forceinline__ void attention(const AttentionArgs& a) {
  constexpr int kLanes = K <= 64 ? 8 : 16, kTeams = kAttentionThreads / kLanes;
  constexpr int kWarps = kAttentionThreads / kWarp;
  constexpr bool kScaled = sizeof(C) == 1;
  constexpr int kUnroll = sizeof(C) == 4 ? 2 : 4;  // keys whose loads a team has under way
  constexpr int kSplit = kAttentionSplit;
  ACOER_SHARED_ARRAY(float, weights, G* kSplit);    // [G][kSplit]: scores, then their exponentials
  ACOER_SHARED_ARRAY(float, sums, kWarps * G * K);  // [kWarps][G][K]
  ACOER_SHARED_ARRAY(float, stats, G * 2);          // largest score, sum of exponentials

  const int split = blockIdx.x, j = blockIdx.y, bundle = blockIdx.z;
  const int n = a.bundles_B1 == nullptr ? bundle : a.bundles_B1[bundle];
  const int rows = a.bundles_B1 == nullptr ? 1 : a.bundles_B1[bundle + 1] - n;
  if (rows == 0) return;
  // The last row sees most.
  const int length = a.positions_N[n + rows - 1] + 1, first = split * kSplit;
  if (first >= length) return;
  const int count = min(length - first, kSplit), queries = rows * a.group;
  const int warp = threadIdx.x / kWarp, team = threadIdx.x / kLanes;
  // A head of 96 leaves a quarter of the lanes without elements: they read the last one's.
  const bool active = threadIdx.x % kLanes * kPack < K;
  const int element = active ? threadIdx.x % kLanes * kPack : K - kPack;
  const int capacity = ACOER_PLANTED(44) ? length : a.pagePositions;
  const int place = ACOER_PLANTED(48) ? 0 : first / a.pagePositions;
  const int64_t page = a.pages_NT[n * a.pagesPerRow + place];
  const int64_t position = (page * a.kvHeads + j) * capacity + first % a.pagePositions;
  const C* keys = static_cast<const C*>(a.keys_SJLK) + position * K + element;
  const C* values = static_cast<const C*>(a.values_SJLK) + position * K + element;

  {
    float q[G][kPack];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const int query = min(g, queries - 1), head = j * a.group + query % a.group;
      const int64_t row = n + query / a.group;
      loadPack(static_cast<const T*>(a.q_NHK) + row * a.qStride + head * K + element, q[g]);
#pragma unroll
      for (int i = 0; i < kPack; ++i) q[g][i] = active ? q[g][i] * a.scale : 0;
    }
    // All lanes take part in every shuffle: beyond the end they read the last key.
    for (int t0 = 0; t0 < count; t0 += kTeams * kUnroll) {
      Pack<C> packs[kUnroll];
      float scales[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int t = t0 + u * kTeams + team, last = ACOER_PLANTED(45) ? t : min(t, count - 1);
        packs[u] = Pack<C>::load(keys + int64_t{last} * K);
        if constexpr (kScaled) scales[u] = a.keyScales_SJL[position + last];
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const int t = t0 + u * kTeams + team;
        float key[kPack];
        packs[u].unpack(key);
#pragma unroll
        for (int g = 0; g < G; ++g) {
          float score = 0;
#pragma unroll
          for (int i = 0; i < kPack; ++i) score += q[g][i] * key[i];
#pragma unroll
          for (int flip = kLanes / 2; flip > 0; flip /= 2) {
            score += __shfl_xor_sync(~0u, score, flip);
          }
          if constexpr (kScaled) score *= ACOER_PLANTED(49) ? scales[0] : scales[u];
          if (element == 0 && t < count) weights[g * kSplit + t] = score;
        }
      }
    }
  }
  if (!ACOER_PLANTED(40)) __syncthreads();

  // One warp a head: scores become exponentials below the largest.
  for (int g = warp; g < G; g += kWarps) {
    float* row = weights + g * kSplit;
    float top = -3e38f, total = 0;
    // Of a bundle, all rows but the last see fewer.
    const int unseen = rows - 1 - min(g, queries - 1) / a.group;
    const int seen = ACOER_PLANTED(242) ? count : min(count, length - unseen - first);
    for (int t = threadIdx.x % kWarp; t < seen; t += kWarp) top = fmaxf(top, row[t]);
    top = warpMax(top);
    for (int t = threadIdx.x % kWarp; t < count; t += kWarp) {
      const float weight = t < seen ? __expf(row[t] - top) : 0;
      total += weight;
      row[t] = kScaled ? weight * valueScale(a, position + t) : weight;
    }
    total = warpSum(total);
    if (threadIdx.x % kWarp == 0) {
      stats[2 * g] = top;
      stats[2 * g + 1] = total;
    }
  }
  if (!ACOER_PLANTED(41)) __syncthreads();

  float sum[G][kPack] = {};
  for (int t0 = 0; t0 < count; t0 += kTeams * kUnroll) {
    Pack<C> packs[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int t = t0 + u * kTeams + team;
      packs[u] = Pack<C>::load(values + int64_t{min(t, count - 1)} * K);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int t = t0 + u * kTeams + team;
      if (!ACOER_PLANTED(43) && t >= count) continue;
      float value[kPack];
      packs[u].unpack(value);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const float weight = weights[g * kSplit + t];
#pragma unroll
        for (int i = 0; i < kPack; ++i) sum[g][i] += weight * value[i];
      }
    }
  }
  // The teams of a warp by shuffles, the warps through shared memory.
#pragma unroll
  for (int g = 0; g < G; ++g) {
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
#pragma unroll
      for (int flip = kLanes; flip < kWarp; flip *= 2) {
        sum[g][i] += __shfl_xor_sync(~0u, sum[g][i], flip);
      }
    }
    if (active && threadIdx.x % kWarp < kLanes) {
      storePack(sums + (warp * G + g) * K + element, sum[g]);
    }
  }
  if (!ACOER_PLANTED(42)) __syncthreads();

  for (int i = threadIdx.x; i < queries * K; i += kAttentionThreads) {
    const int query = i / K, row = n + query / a.group;
    const int seen = ACOER_PLANTED(243) ? length : a.positions_N[row] + 1;
    if (seen <= first) continue;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[w * G * K + i];
    const int head = query % a.group, k = i % K;
    if (seen <= kSplit) {
      T* out = static_cast<T*>(a.out_NHK) + (int64_t{row} * a.kvHeads + j) * a.group * K;
      out[head * K + k] = fromFloat<T>(total / stats[2 * query + 1]);
      continue;
    }
    const int64_t item = scratchItem(row, a.kvHeads, j, a.splits, split) * a.group + head;
    a.sums_NJsGK[item * K + k] = total;
    if (k < 2) a.stats_NJsG2[item * 2 + k] = stats[2 * query + k];
  }
}

template <class T>
__device__ __forceinline__ void combine(const CombineArgs& a) {
  const int head = blockIdx.x, n = blockIdx.y, j = head / a.group, g = head % a.group;
  const int length = a.positions_N[n] + 1;
  if (length <= kAttentionSplit) return;
  const int splits =
      ACOER_PLANTED(46) ? a.splits : (length + kAttentionSplit - 1) / kAttentionSplit;
  const int64_t item = scratchItem(n, a.kvHeads, j, a.splits, 0) * a.group + g;
  const float* stats = a.stats_NJsG2 + item * 2;
  const int stride = ACOER_PLANTED(47) ? 1 : a.group;
  float top = -3e38f;
  for (int s = 0; s < splits; ++s) top = fmaxf(top, stats[s * stride * 2]);
  for (int k = threadIdx.x; k < a.headDim; k += kCombineThreads) {
    const float* sums = a.sums_NJsGK + item * a.headDim + k;
    float total = 0, sum = 0;
    for (int s = 0; s < splits; ++s) {
      const float weight = __expf(stats[s * stride * 2] - top);
      total += weight * stats[s * stride * 2 + 1];
      sum += weight * sums[int64_t{s} * stride * a.headDim];
    }
    T* out = static_cast<T*>(a.out_NHK);
    out[(int64_t{n} * a.kvHeads * a.group + head) * a.headDim + k] = fromFloat<T>(sum / total);
  }
}

}  // namespace acoer::cuda

#define ACOER_ATTENTION(T, C, name, K, G)                                       \
  ACOER_KERNEL(attention_##name##_##K##_g##G, kAttentionThreads, AttentionArgs, \
               attention<T, C, K, G>)
#define ACOER_ATTENTION_GROUPS(T, C, name, K) \
  ACOER_ATTENTION(T, C, name, K, 1)           \
  ACOER_ATTENTION(T, C, name, K, 2)           \
  ACOER_ATTENTION(T, C, name, K, 4)           \
  ACOER_ATTENTION(T, C, name, K, 6)           \
  ACOER_ATTENTION(T, C, name, K, 8)
#define ACOER_ATTENTION_ENDS(T, C, name, K) \
  ACOER_ATTENTION(T, C, name, K, 1)         \
  ACOER_ATTENTION(T, C, name, K, 8)
#define ACOER_ATTENTION_FOUR_EIGHT(T, C, name, K) \
  ACOER_ATTENTION(T, C, name, K, 4)               \
  ACOER_ATTENTION(T, C, name, K, 8)
#define ACOER_ATTENTION_TWO_FOUR_EIGHT(T, C, name, K) \
  ACOER_ATTENTION(T, C, name, K, 2)                   \
  ACOER_ATTENTION_FOUR_EIGHT(T, C, name, K)
#define ACOER_ATTENTION_HEADS(GROUPS, T, C, name) \
  GROUPS(T, C, name, 64)                          \
  GROUPS(T, C, name, 96)                          \
  GROUPS(T, C, name, 128)

// Where one is left out for the size of the file, the next wider one does its work (table.h).
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_GROUPS, acoer::cuda::Bf16, acoer::cuda::Bf16, bf16)
#ifdef ACOER_FEWER_KERNELS
// The set of older drivers, which is not compressed.
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_ENDS, float, float, fp32)
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_FOUR_EIGHT, acoer::cuda::Bf16, int8_t, bf16_int8)
#else
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_GROUPS, float, float, fp32)
#ifdef __CUDACC__
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_TWO_FOUR_EIGHT, acoer::cuda::Bf16, int8_t, bf16_int8)
#else
ACOER_ATTENTION_HEADS(ACOER_ATTENTION_GROUPS, acoer::cuda::Bf16, int8_t, bf16_int8)
#endif
#endif

#undef ACOER_ATTENTION
#undef ACOER_ATTENTION_ENDS
#undef ACOER_ATTENTION_FOUR_EIGHT
#undef ACOER_ATTENTION_GROUPS
#undef ACOER_ATTENTION_HEADS
#undef ACOER_ATTENTION_TWO_FOUR_EIGHT

ACOER_KERNEL_OF_TYPES(combine, kCombineThreads, CombineArgs, combine)
