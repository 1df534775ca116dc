// The kernels of kernels.fatbin. Plain C++, for the host that launches them.
//
// A kernel takes one struct by value, has one size of block and uses no dynamic shared memory; its
// grid is written beside the struct.
#pragma once

#include <cstddef>
#include <string>

#include "advance_args.h"
#include "args.h"
#include "dropout_args.h"
#include "lora_args.h"
#include "quantised_args.h"
#include "sampler_args.h"
#include "train_args.h"

// ACOER_KERNELS(KERNEL) is KERNEL(name, threads of a block, type of the argument) for each; the
// name in the fatbin begins with "acoer_".
#define ACOER_TYPES(KERNEL, name, threads, Args) \
  KERNEL(name##_bf16, threads, Args)             \
  KERNEL(name##_fp32, threads, Args)
#define ACOER_ATTENTION_HEAD(KERNEL, head)                        \
  KERNEL(attention_##head##_g1, kAttentionThreads, AttentionArgs) \
  KERNEL(attention_##head##_g2, kAttentionThreads, AttentionArgs) \
  KERNEL(attention_##head##_g4, kAttentionThreads, AttentionArgs) \
  KERNEL(attention_##head##_g6, kAttentionThreads, AttentionArgs) \
  KERNEL(attention_##head##_g8, kAttentionThreads, AttentionArgs)
#define ACOER_KERNELS(KERNEL)                                                   \
  ACOER_TYPES(KERNEL, norm, kNormThreads, NormArgs)                             \
  ACOER_TYPES(KERNEL, swiglu, kSwigluThreads, SwigluArgs)                       \
  ACOER_TYPES(KERNEL, rotate, kRotateThreads, RotateArgs)                       \
  KERNEL(rotate_bf16_int8, kRotateThreads, RotateArgs)                          \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_64)                                         \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_96)                                         \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_128)                                        \
  ACOER_ATTENTION_HEAD(KERNEL, fp32_64)                                         \
  ACOER_ATTENTION_HEAD(KERNEL, fp32_96)                                         \
  ACOER_ATTENTION_HEAD(KERNEL, fp32_128)                                        \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_int8_64)                                    \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_int8_96)                                    \
  ACOER_ATTENTION_HEAD(KERNEL, bf16_int8_128)                                   \
  ACOER_TYPES(KERNEL, combine, kCombineThreads, CombineArgs)                    \
  ACOER_TYPES(KERNEL, lora_ranks, kLoraRanksThreads, LoraRanksArgs)             \
  ACOER_TYPES(KERNEL, lora_add, kLoraAddThreads, LoraAddArgs)                   \
  ACOER_TYPES(KERNEL, lora_swiglu, kLoraAddThreads, LoraSwigluArgs)             \
  ACOER_TYPES(KERNEL, dequantise_nf4, kDequantiseThreads, DequantiseNf4Args)    \
  ACOER_TYPES(KERNEL, dequantise_int8, kDequantiseThreads, DequantiseInt8Args)  \
  ACOER_TYPES(KERNEL, product_nf4, kQuantisedThreads, Nf4ProductArgs)           \
  ACOER_TYPES(KERNEL, product_int8, kQuantisedThreads, Int8ProductArgs)         \
  KERNEL(sampler_blocks, kSamplerBlocksThreads, SamplerArgs)                    \
  KERNEL(sampler_draw, kSamplerDrawThreads, SamplerArgs)                        \
  KERNEL(advance, kAdvanceThreads, AdvanceArgs)                                 \
  ACOER_TYPES(KERNEL, dropout, kDropoutThreads, DropoutArgs)                    \
  ACOER_TYPES(KERNEL, norm_backward, kNormThreads, NormBackwardArgs)            \
  ACOER_TYPES(KERNEL, head_norm, kRotateThreads, HeadNormArgs)                  \
  ACOER_TYPES(KERNEL, head_norm_backward, kRotateThreads, HeadNormBackwardArgs) \
  ACOER_TYPES(KERNEL, swiglu_backward, kSwigluThreads, SwigluBackwardArgs)      \
  ACOER_TYPES(KERNEL, log_probs, kLogProbsThreads, LogProbsArgs)                \
  KERNEL(gradient_squares, kAdamWThreads, GradientSquaresArgs)                  \
  KERNEL(adamw, kAdamWThreads, AdamWArgs)

namespace acoer::cuda {

#define ACOER_ID(name, threads, Args) name,
enum class KernelId : size_t { ACOER_KERNELS(ACOER_ID) };
#undef ACOER_ID

struct KernelInfo {
  const char* name;
  uint32_t threads;
  size_t argsBytes;
};

#define ACOER_INFO(name, threads, Args) {"acoer_" #name, threads, sizeof(Args)},
constexpr KernelInfo kKernels[] = {ACOER_KERNELS(ACOER_INFO)};
#undef ACOER_INFO
constexpr size_t kKernelCount = sizeof(kKernels) / sizeof(kKernels[0]);

constexpr const KernelInfo& kernelInfo(KernelId id) { return kKernels[static_cast<size_t>(id)]; }

// A cache in int8 is for bf16 only.
constexpr KernelId rotateKernel(bool bf16, bool int8Cache) {
  return int8Cache ? KernelId::rotate_bf16_int8
                   : (bf16 ? KernelId::rotate_bf16 : KernelId::rotate_fp32);
}

// For a head size of 64, 96 or 128 and a group of 1 to 8 query heads.
constexpr KernelId attentionKernel(bool bf16, bool int8Cache, int64_t headDim, int64_t group) {
  const auto first = static_cast<size_t>(int8Cache ? KernelId::attention_bf16_int8_64_g1
                                         : bf16    ? KernelId::attention_bf16_64_g1
                                                   : KernelId::attention_fp32_64_g1);
  const int64_t size = headDim == 64 ? 0 : headDim == 96 ? 1 : 2;
  return static_cast<KernelId>(first + static_cast<size_t>(size) * kAttentionGroupCount +
                               attentionGroupIndex(group));
}
static_assert(attentionKernel(false, false, 128, 5) == KernelId::attention_fp32_128_g6);
static_assert(attentionKernel(false, false, 128, 7) == KernelId::attention_fp32_128_g8);
static_assert(attentionKernel(true, false, 96, 2) == KernelId::attention_bf16_96_g2);
static_assert(attentionKernel(true, true, 128, 3) == KernelId::attention_bf16_int8_128_g4);

// What does a kernel's work where a file leaves it out (ACOER_FEWER_KERNELS in attention.cuh): of
// fp32 and over a cache in int8, the attention of the next wider group, which may be left out, too.
// Empty if nothing does.
inline std::string widerKernel(const std::string& name) {
  const auto begins = [&](const char* prefix) { return name.rfind(prefix, 0) == 0; };
  if (!begins("acoer_attention_fp32_") && !begins("acoer_attention_bf16_int8_")) return "";
  const size_t digits = name.rfind('g') + 1;
  const int group = std::stoi(name.substr(digits));
  if (group == kAttentionGroups[kAttentionGroupCount - 1]) return "";
  return name.substr(0, digits) + std::to_string(kAttentionGroups[attentionGroupIndex(group + 1)]);
}

}  // namespace acoer::cuda
