// Our CUDA kernels on a CPU: the engine's GPU path with real numbers, without a GPU.
#pragma once

#include "gpu_kernels.h"

namespace acoer::check {

// All kernels of the table, run by the emulator (native/test/emu) on tensors in host memory. Fails
// unless checkDevice() is a CPU.
const GpuKernels& emulatedKernels();

// The kernels to check on checkDevice(): emulated on a CPU, else the real ones, without which the
// test fails.
const GpuKernels* kernelsToCheck();

// While it exists, the emulated kernels have the bug of this number (ACOER_PLANTED).
class PlantedBug {
 public:
  explicit PlantedBug(int number);
  ~PlantedBug();
  PlantedBug(const PlantedBug&) = delete;
  PlantedBug& operator=(const PlantedBug&) = delete;
};

}  // namespace acoer::check
