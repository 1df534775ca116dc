// What a kernel's source needs to compile with nvcc and, for the tests, with a C++ compiler and the
// emulator (native/test/emu).
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#include <cuda_bf16.h>

// A shared array of a size known at compile time.
#define ACOER_SHARED_ARRAY(type, name, count) __shared__ __align__(16) type name[count]
// Dynamic shared memory, as much as the launch gives.
#define ACOER_SHARED(type, name)                               \
  extern __shared__ __align__(16) unsigned char acoerShared[]; \
  type* name = reinterpret_cast<type*>(acoerShared)
// Whether planted bug n is active: the tests must fail with each of them. Never in a real kernel.
#define ACOER_PLANTED(n) false

#else

#include "cuda_emu.h"

#define ACOER_SHARED_ARRAY(type, name, count) \
  static const char name##Key = 0;            \
  type* const name = emu::sharedArray<type>(&name##Key, count)
#define ACOER_SHARED(type, name) \
  type* const name = reinterpret_cast<type*>(emu::currentBlock()->dynamicShared.get())
#define ACOER_PLANTED(n) (emu::plantedBug() == (n))

#endif

// The kernel acoer_<name>, whose blocks have `threads` threads: it runs a function of acoer::cuda.
#define ACOER_KERNEL(name, threads, Args, ...) \
  ACOER_KERNEL_WITHIN((acoer::cuda::threads), name, Args, __VA_ARGS__)
// With so few registers that a processor has room for `blocks` blocks.
#define ACOER_RESIDENT_KERNEL(name, threads, blocks, Args, ...) \
  ACOER_KERNEL_WITHIN((acoer::cuda::threads, blocks), name, Args, __VA_ARGS__)
#define ACOER_KERNEL_WITHIN(bounds, name, Args, ...)                                      \
  extern "C" __global__ void __launch_bounds__ bounds acoer_##name(acoer::cuda::Args a) { \
    acoer::cuda::__VA_ARGS__(a);                                                          \
  }
// One for each type of storage (storage.cuh), of which `body` is a template.
#define ACOER_KERNEL_OF_TYPES(name, threads, Args, body)            \
  ACOER_KERNEL(name##_bf16, threads, Args, body<acoer::cuda::Bf16>) \
  ACOER_KERNEL(name##_fp32, threads, Args, body<float>)
#define ACOER_RESIDENT_KERNEL_OF_TYPES(name, threads, blocks, Args, body)            \
  ACOER_RESIDENT_KERNEL(name##_bf16, threads, blocks, Args, body<acoer::cuda::Bf16>) \
  ACOER_RESIDENT_KERNEL(name##_fp32, threads, blocks, Args, body<float>)
