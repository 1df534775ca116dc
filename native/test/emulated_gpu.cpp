#include "emulated_gpu.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

#include "check.h"
#include "kernels/kernels.cu"

namespace acoer::check {
namespace {

using Run = void (*)(LaunchSize grid, LaunchSize block, const void* args);

// A kernel's handle is its entry.
struct Entry {
  const char* name;
  Run run;
};

template <class Args, void (*kernel)(Args)>
void runKernel(LaunchSize grid, LaunchSize block, const void* argBytes) {
  Args args;
  std::memcpy(&args, argBytes, sizeof args);
  emu::launch(kernel, dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), 0, args);
}

using namespace acoer::cuda;  // the types that the table names
#define ACOER_ENTRY(name, threads, Args) {"acoer_" #name, runKernel<Args, ::acoer_##name>},
const Entry kEntries[] = {ACOER_KERNELS(ACOER_ENTRY)};
#undef ACOER_ENTRY

CudaRuntime emulatedRuntime() {
  CudaRuntime runtime;
  runtime.libraryLoadData = [](void**, const void*, void*, void**, unsigned, void*, void**,
                               unsigned) { return 0; };
  runtime.libraryGetKernel = [](void** kernel, void*, const char* name) {
    for (const Entry& entry : kEntries) {
      if (std::strcmp(entry.name, name) != 0) continue;
      *kernel = const_cast<Entry*>(&entry);
      return 0;
    }
    return 500;  // cudaErrorSymbolNotFound
  };
  runtime.libraryUnload = [](void*) { return 0; };
  runtime.launchKernel = [](const void* kernel, LaunchSize grid, LaunchSize block, void** args,
                            size_t, void*) {
    static_cast<const Entry*>(kernel)->run(grid, block, args[0]);
    return 0;
  };
  runtime.getErrorString = [](int) { return "an error of the emulated runtime"; };
  return runtime;
}

std::filesystem::path fatbin() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&emulatedKernels), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / "kernels.fatbin";
}

}  // namespace

const GpuKernels* kernelsToCheck() {
  if (checkDevice().is_cpu()) return &emulatedKernels();
  const GpuKernelChoice& choice = gpuKernels(checkDevice());
  if (!choice.kernels) fail(ErrorCode::kDevice, choice.reason);
  return choice.kernels.get();
}

PlantedBug::PlantedBug(int number) { emu::plantedBug() = number; }
PlantedBug::~PlantedBug() { emu::plantedBug() = 0; }

const GpuKernels& emulatedKernels() {
  if (!checkDevice().is_cpu()) {
    fail(ErrorCode::kInternal, "emulated kernels read host memory, and the tensors are on " +
                                   checkDevice().str() + "; use kernelsToCheck()");
  }
  static const auto* kernels = new GpuKernels(fatbin(), emulatedRuntime());
  return *kernels;
}

}  // namespace acoer::check
