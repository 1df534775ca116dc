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
