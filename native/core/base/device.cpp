#include "base/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <linux/limits.h>

#include <filesystem>
#include <mutex>

#include "../cuda/acoer_cuda.h"
#include "base/error.h"
#include "base/host.h"

namespace acoer {
namespace {

struct DeviceLibraries {
  bool libtorchHasCuda = false;
  std::string loadError;  // why a library that exists did not load
  decltype(&acoerCudaLimitMemory) cudaLimitMemory = nullptr;
};

std::string lastLoadError() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

std::filesystem::path libtorchFolder() {
  void* cpu = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (cpu == nullptr)
    fail(ErrorCode::kInternal, "libtorch_cpu.so is not loaded: ", lastLoadError());
  char folder[PATH_MAX];
  const int found = dlinfo(cpu, RTLD_DI_ORIGIN, folder);
  dlclose(cpu);
  if (found != 0) fail(ErrorCode::kInternal, "libtorch_cpu.so has no folder: ", lastLoadError());
  return folder;
}

void loadKernels(DeviceLibraries& libraries) {
  const auto path = ownFolder() / "libacoer_cuda.so";
  if (!std::filesystem::exists(path)) return;
  void* kernels = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (kernels == nullptr) {
    libraries.loadError = lastLoadError();
    return;
  }
  const auto abi = reinterpret_cast<decltype(&acoerCudaAbi)>(dlsym(kernels, "acoerCudaAbi"));
  if (abi == nullptr || abi() != ACOER_CUDA_ABI) {
    libraries.loadError =
        path.string() + " was built from another version of acoer; run npx acoer setup";
    return;
  }
  libraries.cudaLimitMemory =
      reinterpret_cast<decltype(&acoerCudaLimitMemory)>(dlsym(kernels, "acoerCudaLimitMemory"));
}

const DeviceLibraries& deviceLibraries() {
  static DeviceLibraries libraries;
  static std::once_flag once;
  std::call_once(once, [] {
    const auto path = libtorchFolder() / "libtorch_cuda.so";
    if (!std::filesystem::exists(path)) return;
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      libraries.loadError = lastLoadError();
      return;
    }
    libraries.libtorchHasCuda = true;
    loadKernels(libraries);
  });
  return libraries;
}

int64_t cudaDeviceCount() {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount();
}

c10::Device cudaDevice(const std::string& name) {
  const DeviceLibraries& libraries = deviceLibraries();
  if (!libraries.libtorchHasCuda) {
    fail(ErrorCode::kDevice, "device ", name, ": ",
         (libraries.loadError.empty()
              ? "the libtorch in use was built without CUDA"
              : "libtorch's CUDA part does not load: " + libraries.loadError),
         "; use device cpu, or run npx acoer setup on the machine with the GPU");
  }
  const int64_t count = cudaDeviceCount();
  if (count == 0) {
    fail(ErrorCode::kDevice, "device ", name,
         ": there is no usable NVIDIA GPU or driver here (nvidia-smi shows what "
         "the system sees); use device cpu");
  }
  const int64_t index = name == "cuda" || name == "auto" ? 0 : std::stol(name.substr(5));
  if (index >= count) {
    fail(ErrorCode::kDevice, "device ", name, ": this machine has ", count,
         " CUDA device(s), numbered from 0");
  }
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

// Functions of NVIDIA's driver library, which the CUDA runtime has already loaded. They never
// change, so no header is needed.
class CardDriver {
 public:
  // Of the device with this index.
  explicit CardDriver(int index) : library_(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    const auto initialise = find<int (*)(unsigned)>("cuInit");
    const auto handleOf = find<int (*)(int*, int)>("cuDeviceGet");
    known_ = initialise != nullptr && handleOf != nullptr && initialise(0) == 0 &&
             handleOf(&handle_, index) == 0;
  }
  ~CardDriver() {
    if (library_ != nullptr) dlclose(library_);
  }
  CardDriver(const CardDriver&) = delete;
  CardDriver& operator=(const CardDriver&) = delete;
  // Empty if the driver does not tell.
  std::string name() const {
    const auto nameOf = find<int (*)(char*, int, int)>("cuDeviceGetName");
    char name[256] = "";
    const bool told = known_ && nameOf != nullptr && nameOf(name, sizeof(name), handle_) == 0;
    return told ? name : "";
  }
  std::string id() const {
    const auto idOf = find<int (*)(unsigned char*, int)>("cuDeviceGetUuid");
    unsigned char bytes[16] = {};
    if (!known_ || idOf == nullptr || idOf(bytes, handle_) != 0) return "";
    std::string text;
    for (const unsigned char byte : bytes) {
      for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
    }
    return text;
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  int handle_ = 0;
  bool known_ = false;
};

bool isCudaName(const std::string& name) {
  if (name == "cuda") return true;
  if (name.rfind("cuda:", 0) != 0 || name.size() < 6 || name.size() > 7) return false;
  return name.find_first_not_of("0123456789", 5) == std::string::npos;
}

}  // namespace

std::filesystem::path ownFolder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&resolveDevice), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path();
}

c10::Device resolveDevice(const std::string& name) {
  deviceLibraries();  // before the first question about CUDA
  if (name == "cpu") return c10::kCPU;
  if (name == "auto") {
    return cudaDeviceCount() > 0 ? cudaDevice(name) : c10::Device(c10::kCPU);
  }
  if (isCudaName(name)) return cudaDevice(name);
  fail(ErrorCode::kBadArgument, "device must be auto, cpu, cuda or cuda:<n>, not \"", name, "\"");
}

void computeOn(c10::Device device) {
  if (device.is_cpu()) return;
  try {
    at::globalContext().lazyInitDevice(device.type());
    const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
    guard->setDevice(device);
    if (guard->getStream(device) != guard->getDefaultStream(device)) return;
    // cuBLAS may otherwise add up the parts of a product in bf16, in training other parts than in
    // sampling.
    at::globalContext().setAllowBF16ReductionCuBLAS(false);
    guard->exchangeStream(guard->getStreamFromGlobalPool(device));
  } catch (const c10::Error& error) {
    fail(ErrorCode::kDevice, device.str(), ": ", error.what_without_backtrace());
  }
}

std::string cudaVersion() {
  if (!deviceLibraries().libtorchHasCuda) return "";
  // cudart encodes 13.0 as 13000.
  const long version = at::detail::getCUDAHooks().versionCUDART();
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

DeviceFacts deviceFacts(c10::Device device) {
  const std::string id = device.str();
  if (device.is_cpu()) {
    const auto [total, free] = machineMemory();
    return {id, processorName(), total, free};
  }
  const std::string named = CardDriver(device.index()).name();
  const std::string card = named.empty() ? id : named;
  try {
    const auto [free, total] =
        c10::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
    return {id, card, static_cast<int64_t>(total), static_cast<int64_t>(free)};
  } catch (const c10::Error& error) {
    fail(ErrorCode::kDevice, id, ": ", error.what_without_backtrace());
  }
}

std::string cardId(c10::Device device) { return CardDriver(device.index()).id(); }

void limitDeviceMemory(c10::Device device, int64_t bytes) {
  const DeviceLibraries& libraries = deviceLibraries();
  if (libraries.cudaLimitMemory == nullptr) {
    fail(ErrorCode::kDevice, "memoryLimitBytes on ", device.str(),
         " needs libacoer_cuda.so, which is built where the CUDA toolkit "
         "is installed; set no limit, or install the toolkit and run npx acoer setup");
  }
  const c10::OptionalDeviceGuard guard(device);
  at::globalContext().lazyInitDevice(c10::kCUDA);
  const int64_t total = deviceFacts(device).totalBytes;
  libraries.cudaLimitMemory(device.index(),
                            std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total)));
}

}  // namespace acoer
