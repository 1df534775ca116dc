// Which file of CUDA kernels the driver and the card of this machine take, asked before anything is
// loaded: some drivers load kernels that they cannot start.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/gpu/kernels.h"

namespace acoer {

struct GpuCard {
  int driverCuda = 0;  // newest CUDA that the driver knows, 13.0 as 13000; 0: it does not tell
  int capability = 0;  // compute capability, 8.6 as 86; 0: it does not tell
  std::string driver;  // the driver's own version, such as "550.54.14"; empty: unknown
};

// The current device.
GpuCard currentCard(const CudaRuntime& runtime);

// The version in a text such as /proc/driver/nvidia/version; empty if there is none.
std::string driverVersionIn(const std::string& text);

// What the loader calls of NVIDIA's driver library, as declared in cuda.h since CUDA 4. A result is
// a CUresult, 0 for success, with the numbers of cudaError_t.
struct CudaDriver {
  int (*moduleLoadData)(void** module, const void* image) = nullptr;
  int (*moduleGetFunction)(void** function, void* module, const char* name) = nullptr;
  int (*moduleUnload)(void* module) = nullptr;
  int (*launchKernel)(void* function, unsigned gridX, unsigned gridY, unsigned gridZ,
                      unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                      void* stream, void** args, void** extra) = nullptr;
  int (*ctxGetCurrent)(void** context) = nullptr;
};

// The functions of the libcuda that the CUDA runtime has loaded, found by dlsym.
CudaDriver loadedCudaDriver();

// `runtime`, with kernels loaded and started through `driver`, so that the runtime's version does
// not matter. What is loaded belongs to the device that is current then. Launches are recorded into
// graphs like the runtime's: a stream that captures takes cuLaunchKernel, too.
CudaRuntime throughDriver(const CudaRuntime& runtime, const CudaDriver& driver);

struct KernelSource {
  std::filesystem::path file;  // relative to the folder of kernels.fatbin
  CudaRuntime runtime;         // that loads and starts them
  std::string reason;          // one sentence, when nothing fits
};

KernelSource kernelSource(const GpuCard& card, const CudaRuntime& runtime,
                          const CudaDriver& driver);

}  // namespace acoer
