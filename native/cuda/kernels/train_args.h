// The arguments of the kernels that only training uses, one struct by value each. Plain C++: the
// host fills them without CUDA's headers. Pointers are to device memory of the kernel's storage
// type unless a type is given.
//
// N rows (one token each), D hidden size, F intermediate size, T tokens, K head size, C tokens of a
// chunk, V vocabulary.
#pragma once

#include <cstdint>

#include "args.h"

namespace acoer::cuda {

// Grid (N), kNormThreads. D is a multiple of 8.
struct NormBackwardArgs {
  const void* dy_ND;
  const void* x_ND;
  const float* inverseRms_N;  // as the forward pass wrote it
  const void* weight_D;
  const void* residual_ND;  // added to dx; null: nothing
  void* dx_ND;
  int32_t width;  // D
};

// A [T, heads, K] view; strides in elements, the last one is 1. Elements are read in pairs: data
// and strides are even.
struct HeadView {
  void* data;
  int64_t tokenStride, headStride;
};

// Norm and rotary embedding of query or key heads. Grid (T, headNormBlocks(heads)), kRotateThreads.
// K is 64, 96 or 128.
struct HeadNormArgs {
  HeadView x, y;
  float* inverseRms_TH;  // not used without a weight
  const void* weight_K;  // null: heads are only turned
  const void* cos_TK;    // rounded to the storage type
  const void* sin_TK;
  int32_t heads, headDim;
  float eps;
};

// Grid and block as above.
struct HeadNormBackwardArgs {
  HeadView dy, x, dx;
  const float* inverseRms_TH;  // not used without a weight
  const void* weight_K;        // null: the heads were only turned
  const void* cos_TK;
  const void* sin_TK;
  int32_t heads, headDim;
};

// Grid (N, swigluBlocks(F)), kSwigluThreads. F is a multiple of 8.
struct SwigluBackwardArgs {
  const void* dy_NF;
  const void* gateUp_N2F;
  void* dGateUp_N2F;
  int32_t width;  // F
};

// One visit of the logits of a chunk: two reads of each. Grid (C), kLogProbsThreads.
struct LogProbsArgs {
  const float* logits_CV;
  const int64_t* targets_C;
  float* logprobs_C;   // of the targets, under softmax(logits / temperature)
  float* entropies_C;  // in nats
  void* probs_CV;      // null: not asked for; in fp32 it may be logits_CV itself
  int32_t vocab;       // V
  float inverseTemperature;
};

constexpr int headNormBlocks(int64_t heads) {
  return static_cast<int>((heads + 3) / 4);  // one warp a head
}
constexpr int kLogProbsThreads = 512;

// One parameter of the optimiser, in fp32 and contiguous.
struct AdamWTensor {
  float* value;
  const float* gradient;  // null: all zero
  float* expAvg;
  float* expAvgSq;
  int64_t count;
  int64_t firstBlock;  // of the launch: the blocks of the tensors before it
};

constexpr int kAdamWThreads = 256;
constexpr int64_t kAdamWChunk = 8192;  // elements of a block
constexpr int64_t adamWBlocks(int64_t count) { return (count + kAdamWChunk - 1) / kAdamWChunk; }

// The sum of squared gradients of each block. Grid (all blocks), kAdamWThreads.
struct GradientSquaresArgs {
  const AdamWTensor* tensors;
  float* sums_B;
  int32_t tensorCount;
};

// torch.optim.AdamW's update of every tensor. Grid (all blocks), kAdamWThreads.
struct AdamWArgs {
  const AdamWTensor* tensors;
  int32_t tensorCount;
  float clip;  // the gradients' factor
  float keep;  // 1 - learning rate * weight decay
  float oneMinusBeta1;
  float beta2, oneMinusBeta2;
  float rootCorrection2;  // sqrt(1 - beta2^t)
  float eps;
  float stepSize;  // learning rate / (1 - beta1^t)
};

}  // namespace acoer::cuda
