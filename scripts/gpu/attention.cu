// The decode attention of native/cuda/kernels as a C function for probe.py: bfloat16, heads of 128,
// groups of two.
//
//   nvcc -std=c++17 -O3 -arch=sm_86 -shared -Xcompiler -fPIC -I native/cuda/kernels -o attention.so
//   scripts/gpu/attention.cu
#include "attention.cuh"

using namespace acoer::cuda;

// q and out [rows, 2 kvHeads, 128], keys and values [S, kvHeads, capacity, 128]; splits, sums and
// stats as in AttentionArgs.
extern "C" void acoerDecodeAttention(const void* q, const void* keys, const void* values,
                                     const int* slots, const int* positions, float* sums,
                                     float* stats, void* out, int rows, int kvHeads, int capacity,
                                     int splits, float scale, void* stream) {
  const int heads = 2 * kvHeads;
  AttentionArgs args{};
  args.q_NHK = q;
  args.keys_SJLK = keys;
  args.values_SJLK = values;
  args.slots_N = slots;
  args.positions_N = positions;
  args.sums_NJsGK = sums;
  args.stats_NJsG2 = stats;
  args.out_NHK = out;
  args.qStride = int64_t{heads} * 128;
  args.kvHeads = kvHeads;
  args.group = 2;
  args.capacity = capacity;
  args.splits = splits;
  args.scale = scale;
  const auto on = static_cast<cudaStream_t>(stream);
  acoer_attention_bf16_128_g2<<<dim3(splits, kvHeads, rows), kAttentionThreads, 0, on>>>(args);
  if (splits == 1) return;
  const CombineArgs rest{sums, stats, positions, out, kvHeads, 2, 128, splits};
  acoer_combine_bf16<<<dim3(heads, rows), kCombineThreads, 0, on>>>(rest);
}
