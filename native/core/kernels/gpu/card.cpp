#include "kernels/gpu/card.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>
#include <regex>

namespace acoer {
namespace {

// cudaDeviceAttr.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;

// kernels.fatbin is of CUDA 13, and a driver takes what is not newer than itself; the older set is
// machine code of CUDA 12, which every driver of CUDA 12 runs ("minor version compatibility").
constexpr int kDriverOfFatbin = 13000, kDriverOfOlderSet = 12000;
constexpr int kOldestCapability = 80, kNewestOfOlderSet = 90;

// Runs a question to the runtime; 0 where there is no answer.
template <class Question>
int answer(const CudaRuntime& runtime, const Question& question) {
  int value = 0;
  const int result = question(&value);
  if (result == 0) return value;
  runtime.takeError(result);
  return 0;
}

std::string dotted(int number, int divisor) {
  return std::to_string(number / divisor) + "." + std::to_string(number % divisor);
}

std::string cudaName(int version) { return "CUDA " + dotted(version / 10, 100); }

std::string thisDriver(const GpuCard& card) {
  return card.driver.empty() ? "is for " + cudaName(card.driverCuda)
                             : "is " + card.driver + ", for " + cudaName(card.driverCuda);
}

constexpr const char* kInstead = ": libtorch's operations do their work";

bool loadsLibraries(const CudaRuntime& runtime) {
  return runtime.libraryLoadData && runtime.libraryGetKernel && runtime.libraryUnload;
}

bool isWhole(const CudaDriver& driver) {
  return driver.moduleLoadData != nullptr && driver.moduleGetFunction != nullptr &&
         driver.moduleUnload != nullptr && driver.launchKernel != nullptr &&
         driver.ctxGetCurrent != nullptr;
}

// Machine code of the older set that a card runs: its own or an earlier one of the same major.
std::filesystem::path olderFile(int capability) {
  const char* name = capability >= 90 ? "sm_90" : capability >= 86 ? "sm_86" : "sm_80";
  return std::filesystem::path("cuda12") / (std::string(name) + ".cubin");
}

// Why the older set is no way out, either; empty if it is.
std::string whyNotOlder(const GpuCard& card, const CudaRuntime& runtime, const CudaDriver& driver) {
  if (card.driverCuda < kDriverOfOlderSet) {
    return "acoer's CUDA kernels need NVIDIA driver 525 or newer; this one " + thisDriver(card) +
           kInstead;
  }
  if (card.capability / 10 > kNewestOfOlderSet / 10) {
    if (card.driverCuda >= kDriverOfFatbin) {  // so the runtime loads no libraries
      return "acoer's CUDA kernels need a libtorch for CUDA 12.8 or newer on a card of compute "
             "capability " +
             dotted(card.capability, 10) + kInstead;
    }
    return "acoer's CUDA kernels need NVIDIA driver 580 or newer on a card of compute capability " +
           dotted(card.capability, 10) + "; this driver " + thisDriver(card) + kInstead;
  }
  if (card.capability == 0) {
    return std::string("CUDA does not tell this card's compute capability") + kInstead;
  }
  if (!isWhole(driver) || runtime.setDevice == nullptr)
    return std::string("NVIDIA's driver library is not loaded") + kInstead;
  return "";
}

std::string textOf(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Function>
void lookUp(void* library, Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string driverVersionIn(const std::string& text) {
  static const std::regex version(R"(Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?))");
  std::smatch found;
  return std::regex_search(text, found, version) ? found[1].str() : "";
}

GpuCard currentCard(const CudaRuntime& runtime) {
  GpuCard card;
  card.driver = driverVersionIn(textOf("/proc/driver/nvidia/version"));
  if (runtime.driverGetVersion == nullptr || runtime.getDevice == nullptr ||
      runtime.deviceGetAttribute == nullptr) {
    return card;
  }
  card.driverCuda = answer(runtime, runtime.driverGetVersion);
  const int device = answer(runtime, runtime.getDevice);
  const auto attribute = [&](int which) {
    return answer(runtime,
                  [&](int* value) { return runtime.deviceGetAttribute(value, which, device); });
  };
  card.capability = 10 * attribute(kCapabilityMajor) + attribute(kCapabilityMinor);
  return card;
}

CudaDriver loadedCudaDriver() {
  CudaDriver driver;
  void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return driver;
  lookUp(library, driver.moduleLoadData, "cuModuleLoadData");
  lookUp(library, driver.moduleGetFunction, "cuModuleGetFunction");
  lookUp(library, driver.moduleUnload, "cuModuleUnload");
  lookUp(library, driver.launchKernel, "cuLaunchKernel");
  lookUp(library, driver.ctxGetCurrent, "cuCtxGetCurrent");
  dlclose(library);  // the runtime keeps it
  return driver;
}

CudaRuntime throughDriver(const CudaRuntime& runtime, const CudaDriver& driver) {
  // A thread on which the runtime has done nothing yet, such as autograd's, has no context, which
  // the runtime makes up for at its first call and the driver does not.
  const auto withContext = [runtime, driver](const auto& call) {
    void* context = nullptr;
    const int asked = driver.ctxGetCurrent(&context);
    if (asked != 0) return asked;
    if (context == nullptr) {
      int device = 0;
      if (const int result = runtime.getDevice(&device); result != 0) return result;
      if (const int result = runtime.setDevice(device); result != 0) return result;
    }
    return call();
  };
  CudaRuntime mixed = runtime;
  mixed.libraryLoadData = [=](void** library, const void* code, void*, void**, unsigned, void*,
                              void**, unsigned) {
    return withContext([&] { return driver.moduleLoadData(library, code); });
  };
  mixed.libraryGetKernel = [=](void** kernel, void* library, const char* name) {
    return withContext([&] { return driver.moduleGetFunction(kernel, library, name); });
  };
  mixed.libraryUnload = [=](void* library) {
    return withContext([&] { return driver.moduleUnload(library); });
  };
  mixed.launchKernel = [=](const void* kernel, LaunchSize grid, LaunchSize block, void** args,
                           size_t sharedBytes, void* stream) {
    return withContext([&] {
      return driver.launchKernel(const_cast<void*>(kernel), grid.x, grid.y, grid.z, block.x,
                                 block.y, block.z, static_cast<unsigned>(sharedBytes), stream, args,
                                 nullptr);
    });
  };
  return mixed;
}

KernelSource kernelSource(const GpuCard& card, const CudaRuntime& runtime,
                          const CudaDriver& driver) {
  if (card.capability != 0 && card.capability < kOldestCapability) {
    return {{},
            runtime,
            "acoer's CUDA kernels need a card of compute capability 8.0 or newer; this one has " +
                dotted(card.capability, 10) + kInstead};
  }
  // A runtime that tells nothing is asked to load: it says what it lacks.
  const bool newDriver = card.driverCuda == 0 || card.driverCuda >= kDriverOfFatbin;
  if (newDriver && (card.driverCuda == 0 || loadsLibraries(runtime))) {
    return {"kernels.fatbin", runtime, ""};
  }
  const std::string reason = whyNotOlder(card, runtime, driver);
  if (!reason.empty()) return {{}, runtime, reason};
  return {olderFile(card.capability), throughDriver(runtime, driver), ""};
}

}  // namespace acoer
