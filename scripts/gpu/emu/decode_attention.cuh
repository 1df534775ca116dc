// Attention of one decode step in one layer: grouped heads, split over the keys, bfloat16 cache [S,
// J, L, 128]. A prototype: the engine does not use it yet.
#pragma once
#include "cuda_port.h"

namespace acoer_cuda {

constexpr int kHead = 128;   // head_dim
constexpr int kSplit = 256;  // keys per block: fixed, so that no sum depends on the batch
constexpr int kThreads = 128;
constexpr int kTeams = kThreads / 16;  // 16 lanes read one key: 16 bytes each
constexpr int kUnroll = 4;
// 1, 2, 3: omits the first barrier, the bounds check or the last barrier, which compare.py must
// detect.
#ifndef ACOER_MUTATION
#define ACOER_MUTATION 0
#endif

__device__ __forceinline__ void unpack8(const uint4& v, float* out) {
  const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#ifdef ACOER_EMULATE
    uint32_t low = w[i] << 16, high = w[i] & 0xFFFF0000u;
    std::memcpy(&out[2 * i], &low, 4);
    std::memcpy(&out[2 * i + 1], &high, 4);
#else
    out[2 * i] = __uint_as_float(w[i] << 16);
    out[2 * i + 1] = __uint_as_float(w[i] & 0xFFFF0000u);
#endif
  }
}

struct DecodeAttention {
  const __nv_bfloat16* q;       // [N, H, 128], normed and rotated
  const __nv_bfloat16* keys;    // [S, J, L, 128]
  const __nv_bfloat16* values;  // [S, J, L, 128]
  const int* slots;             // [N]
  const int* positions;         // [N]: keys 0..positions[n] are seen
  float* partial;               // [N, J, splits, G, 128]
  float* stats;                 // [N, J, splits, G, 2]: max and sum
  __nv_bfloat16* out;           // [N, H, 128]
  int kvHeads, capacity, splits;
  float scale;
};

// Grid (splits, J, N). G query heads share a KV head.
template <int G>
__global__ void __launch_bounds__(kThreads) decodeAttentionKernel(DecodeAttention a) {
  const int split = blockIdx.x, j = blockIdx.y, n = blockIdx.z;
  const int length = a.positions[n] + 1;
  const int first = split * kSplit;
  if (first >= length) return;
  const int count = length - first < kSplit ? length - first : kSplit;
  ACOER_SHARED(float, shared);
  float* scores = shared;             // [G][kSplit]
  float* sums = shared + G * kSplit;  // [kTeams][G][128]
  const int lane = threadIdx.x % 16, team = threadIdx.x / 16;
  const long row = (long(a.slots[n]) * a.kvHeads + j) * a.capacity + first;
  const uint4* keys = reinterpret_cast<const uint4*>(a.keys + row * kHead);
  const uint4* values = reinterpret_cast<const uint4*>(a.values + row * kHead);

  float q[G][8];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const long head = long(n) * a.kvHeads * G + j * G + g;
    unpack8(reinterpret_cast<const uint4*>(a.q + head * kHead)[lane], q[g]);
  }
  // Scores. All lanes of a warp take part in every shuffle; beyond the end they read the last key.
  for (int t0 = 0; t0 < count; t0 += kTeams * kUnroll) {
    uint4 k[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      int t = t0 + u * kTeams + team;
      if (t >= count) t = count - 1;
      k[u] = keys[t * 16 + lane];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float key[8];
      unpack8(k[u], key);
      const int t = t0 + u * kTeams + team;
#pragma unroll
      for (int g = 0; g < G; ++g) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += q[g][i] * key[i];
#pragma unroll
        for (int m = 8; m > 0; m /= 2) dot += __shfl_xor_sync(~0u, dot, m);
        if (lane == 0 && t < count) scores[g * kSplit + t] = dot * a.scale;
      }
    }
  }
#if ACOER_MUTATION != 1
  __syncthreads();
#endif
  // Every warp computes the maximum and the sum itself, which saves a second barrier.
  float top[G], total[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float m = -3.0e38f;
    for (int t = threadIdx.x % 32; t < count; t += 32) {
      const float s = scores[g * kSplit + t];
      m = s > m ? s : m;
    }
#pragma unroll
    for (int x = 16; x > 0; x /= 2) {
      const float other = __shfl_xor_sync(~0u, m, x);
      m = other > m ? other : m;
    }
    float sum = 0;
    for (int t = threadIdx.x % 32; t < count; t += 32) sum += __expf(scores[g * kSplit + t] - m);
#pragma unroll
    for (int x = 16; x > 0; x /= 2) sum += __shfl_xor_sync(~0u, sum, x);
    top[g] = m;
    total[g] = sum;
  }
  float acc[G][8] = {};
  for (int t0 = 0; t0 < count; t0 += kTeams * kUnroll) {
    uint4 v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      int t = t0 + u * kTeams + team;
      if (t >= count) t = count - 1;
      v[u] = values[t * 16 + lane];
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int t = t0 + u * kTeams + team;
#if ACOER_MUTATION != 2
      if (t >= count) continue;
#endif
      float value[8];
      unpack8(v[u], value);
#pragma unroll
      for (int g = 0; g < G; ++g) {
        const float p = __expf(scores[g * kSplit + t] - top[g]);
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[g][i] += p * value[i];
      }
    }
  }
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float4* to = reinterpret_cast<float4*>(sums + (team * G + g) * kHead + lane * 8);
    to[0] = float4{acc[g][0], acc[g][1], acc[g][2], acc[g][3]};
    to[1] = float4{acc[g][4], acc[g][5], acc[g][6], acc[g][7]};
  }
#if ACOER_MUTATION != 3
  __syncthreads();
#endif
  const long item = (long(n) * a.kvHeads + j) * a.splits + split;
#pragma unroll
  for (int g = 0; g < G; ++g) {
    float sum = 0;
    for (int w = 0; w < kTeams; ++w) sum += sums[(w * G + g) * kHead + threadIdx.x];
    if (length <= kSplit) {
      a.out[(long(n) * a.kvHeads * G + j * G + g) * kHead + threadIdx.x] =
          __float2bfloat16(sum / total[g]);
    } else {
      a.partial[(item * G + g) * kHead + threadIdx.x] = sum;
      if (threadIdx.x == 0) {
        a.stats[(item * G + g) * 2] = top[g];
        a.stats[(item * G + g) * 2 + 1] = total[g];
      }
    }
  }
}

// Grid (J * G, N), 128 threads: sums the splits of one head.
template <int G>
__global__ void __launch_bounds__(kHead) combineKernel(DecodeAttention a) {
  const int head = blockIdx.x, n = blockIdx.y, j = head / G, g = head % G;
  const int length = a.positions[n] + 1;
  if (length <= kSplit) return;
  const int splits = (length + kSplit - 1) / kSplit;
  const long item = (long(n) * a.kvHeads + j) * a.splits;
  float top = -3.0e38f;
  for (int s = 0; s < splits; ++s) {
    const float m = a.stats[((item + s) * G + g) * 2];
    top = m > top ? m : top;
  }
  float total = 0, sum = 0;
  for (int s = 0; s < splits; ++s) {
    const float w = __expf(a.stats[((item + s) * G + g) * 2] - top);
    total += w * a.stats[((item + s) * G + g) * 2 + 1];
    sum += w * a.partial[((item + s) * G + g) * kHead + threadIdx.x];
  }
  a.out[(long(n) * a.kvHeads * G + head) * kHead + threadIdx.x] = __float2bfloat16(sum / total);
}

constexpr size_t sharedBytes(int g) { return sizeof(float) * g * (kSplit + kTeams * kHead); }

// partial [rows, J, splits, G, 128] and stats [rows, J, splits, G, 2] are scratch; splits covers
// the longest row.
inline void decodeAttention(const DecodeAttention& a, int rows, cudaStream_t stream) {
  ACOER_LAUNCH(decodeAttentionKernel<2>, dim3(a.splits, a.kvHeads, rows), dim3(kThreads),
               sharedBytes(2), stream, a);
  if (a.splits > 1)
    ACOER_LAUNCH(combineKernel<2>, dim3(a.kvHeads * 2, rows), dim3(kHead), 0, stream, a);
}

}  // namespace acoer_cuda
