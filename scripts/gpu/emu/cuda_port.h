// One kernel source for nvcc and, with ACOER_EMULATE defined, for a C++ compiler and the emulator.
#pragma once

#ifdef ACOER_EMULATE
#include "cuda_emu.h"
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define ACOER_SHARED(type, name)                               \
  extern __shared__ __align__(16) unsigned char acoerShared[]; \
  type* name = reinterpret_cast<type*>(acoerShared)
#define ACOER_LAUNCH(kernel, grid, block, shared, stream, ...) \
  kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#endif
