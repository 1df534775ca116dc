// Our CUDA kernels on a CPU: the engine's GPU path with real numbers, without a GPU.
#pragma once

#include "gpu_kernels.h"

namespace acoer::check {

// All kernels of the table, run by the emulator (native/test/emu) on tensors in host memory.
const GpuKernels& emulatedKernels();

}  // namespace acoer::check
