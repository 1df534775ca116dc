// The project's own CUDA kernels (native/cuda/kernels): loads a file of them through the CUDA
// runtime that libtorch has loaded (or the driver, card.h), and launches. Needs no header of
// CUDA's.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "../cuda/kernels/table.h"

namespace acoer {

// The layout of CUDA's dim3.
struct LaunchSize {
  uint32_t x = 1, y = 1, z = 1;
};

// What the loader calls of the CUDA runtime, as declared in cuda_runtime_api.h of CUDA 13.0 (the
// library functions came with 12.8). An int result is a cudaError_t, 0 for success; handles and
// streams are pointers, enums of options are not used. Null: the runtime has no such function.
struct CudaRuntime {
  // std::function: card.h has others, which go to the driver.
  std::function<int(void** library, const void* code, void* jitOptions, void** jitValues,
                    unsigned jitCount, void* options, void** values, unsigned count)>
      libraryLoadData;
  std::function<int(void** kernel, void* library, const char* name)> libraryGetKernel;
  std::function<int(void* library)> libraryUnload;
  std::function<int(const void* kernel, LaunchSize grid, LaunchSize block, void** args,
                    size_t sharedBytes, void* stream)>
      launchKernel;
  const char* (*getErrorString)(int error) = nullptr;
  int (*getLastError)() = nullptr;  // and forgets it
  // Which driver and card there are.
  int (*driverGetVersion)(int* version) = nullptr;  // newest CUDA that it knows, 13.0 as 13000
  int (*getDevice)(int* device) = nullptr;
  int (*setDevice)(int device) = nullptr;
  int (*deviceGetAttribute)(int* value, int attribute, int device) = nullptr;
  // For graphs only.
  int (*streamBeginCapture)(void* stream, int mode) = nullptr;
  int (*streamEndCapture)(void* stream, void** graph) = nullptr;
  int (*graphInstantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graphLaunch)(void* executable, void* stream) = nullptr;
  int (*graphDestroy)(void* graph) = nullptr;
  int (*graphExecDestroy)(void* executable) = nullptr;

  // The text of a call's error, and what to do where it ends CUDA for the process. Every failed
  // call must pass here: the runtime keeps its error, and libtorch would take it for one of its own
  // next launch.
  std::string takeError(int error) const;
};

// What to do after a cudaError_t that ends CUDA for the process, such as an illegal address, as
// the end of a sentence; empty for other errors.
std::string afterFatalGpuError(int error);

// The functions of the CUDA runtime in this process, found by dlsym.
CudaRuntime loadedCudaRuntime();

// What the runtime has made, with the call that frees it.
using CudaHandle = std::unique_ptr<void, std::function<void(void*)>>;

class GpuKernels {
 public:
  // Loads the file, a fat binary or machine code of one architecture, and looks up every kernel of
  // the table. Fails with BAD_FILE when the file is missing, torn or of another version, with
  // DEVICE when the runtime does not take it.
  GpuKernels(const std::filesystem::path& file, const CudaRuntime& runtime);

  // Starts a kernel on a cudaStream_t of the current device. `args` is the struct that the table
  // names. Fails with DEVICE when the runtime refuses.
  template <class Args>
  void launch(cuda::KernelId id, LaunchSize grid, Args args, void* stream) const {
    launchWith(id, grid, &args, sizeof(Args), stream);
  }
  const CudaRuntime& runtime() const { return runtime_; }

 private:
  void launchWith(cuda::KernelId id, LaunchSize grid, void* args, size_t argsBytes,
                  void* stream) const;

  CudaRuntime runtime_;
  CudaHandle library_;
  std::array<void*, cuda::kKernelCount> kernels_{};
};

// The kernels in use: none where ACOER_KERNELS=aten or where they cannot be loaded.
struct GpuKernelChoice {
  std::unique_ptr<const GpuKernels> kernels;
  std::string reason;            // one sentence, when there are none
  std::filesystem::path file{};  // that they were loaded from
};

// `setting` is the value of ACOER_KERNELS: empty; "check", which the self-check reads; or "aten"
// for libtorch's operations. Anything else fails with BAD_ARGUMENT.
GpuKernelChoice chooseGpuKernels(const std::string& setting, const std::filesystem::path& file,
                                 const CudaRuntime& runtime);

// The cudaStream_t that this thread's work on `device` goes to; a CPU has one of its own.
void* currentGpuStream(c10::Device device);
// Until all of that work is done; nothing on a CPU.
void waitForGpu(c10::Device device);

// The choice of this process for a CUDA device, made at the first call; the kernels lie beside the
// program or addon that holds this code. libtorch's CUDA part is loaded (see loadDeviceLibraries).
const GpuKernelChoice& gpuKernels(c10::Device device);

// The kernels in use on `device`: null on a CPU, and where gpuKernels() has none.
const GpuKernels* gpuKernelsFor(c10::Device device);

}  // namespace acoer
