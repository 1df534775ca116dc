// Our CUDA kernels on a CPU: the engine's GPU path with real numbers, without a GPU.
#pragma once

#include "kernels/gpu/kernels.h"

namespace acoer::check {

// All kernels of the table, run by the emulator (native/test/emu) on tensors in host memory. Fails
// unless checkDevice() is a CPU. kNone: as a CUDA runtime without graphs.
enum class Graphs { kRecorded, kNone };
const GpuKernels& emulatedKernels(Graphs graphs = Graphs::kRecorded);

// The CUDA graphs of this thread's emulated runtime, which records and replays them
// (recorded_work.h).
struct GraphCounts {
  int64_t recorded = 0, replayed = 0;
  int64_t live = 0, most = 0;  // executables now, and the most there were
};
GraphCounts graphCounts();

// The kernels to check on checkDevice(): emulated on a CPU, else the real ones, without which the
// test fails.
const GpuKernels* kernelsToCheck();

// What random models on a CPU get as kernels (device_models.cpp); null at first.
const GpuKernels*& kernelsOnCpu();

// While it exists, the emulated kernels have the bug of this number (ACOER_PLANTED).
class PlantedBug {
 public:
  explicit PlantedBug(int number);
  ~PlantedBug();
  PlantedBug(const PlantedBug&) = delete;
  PlantedBug& operator=(const PlantedBug&) = delete;
};

}  // namespace acoer::check
