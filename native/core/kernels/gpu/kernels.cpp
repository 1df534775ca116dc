#include "kernels/gpu/kernels.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <elf.h>
#include <torch/version.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "base/device.h"
#include "base/error.h"
#include "kernels/gpu/card.h"

namespace acoer {
namespace {

template <class Function>
void lookUp(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

template <class Function>
void lookUp(std::function<Function>& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void requireFunctions(const CudaRuntime& runtime) {
  const std::pair<bool, const char*> functions[] = {
      {runtime.launchKernel != nullptr, "cudaLaunchKernel"},
      {runtime.getErrorString != nullptr, "cudaGetErrorString"},
      {runtime.libraryLoadData != nullptr, "cudaLibraryLoadData"},
      {runtime.libraryGetKernel != nullptr, "cudaLibraryGetKernel"},
      {runtime.libraryUnload != nullptr, "cudaLibraryUnload"},
  };
  for (const auto& [there, name] : functions) {
    if (there) continue;
    fail(ErrorCode::kDevice, "the CUDA runtime of this process has no ", name,
         "; a libtorch built for CUDA 12.8 or newer brings it");
  }
}

// What a fat binary begins with (fatbinary_section.h of CUDA's toolkit): the loader is given no
// length, so a torn file must not reach it.
struct FatbinHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t headerBytes;
  uint64_t bodyBytes;
};
constexpr uint32_t kFatbinMagic = 0xBA55ED50;

bool isWholeFatbin(const std::vector<char>& bytes) {
  FatbinHeader header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.magic == kFatbinMagic && header.headerBytes >= sizeof header &&
         bytes.size() > header.headerBytes && bytes.size() - header.headerBytes == header.bodyBytes;
}

// Machine code of one architecture: an ELF file that ends with its table of segments.
bool isWholeCubin(const std::vector<char>& bytes) {
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  constexpr Elf64_Half kMachineCuda = 190;  // EM_CUDA
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == kMachineCuda &&
         header.e_phoff < bytes.size() &&
         bytes.size() - header.e_phoff == uint64_t{header.e_phnum} * header.e_phentsize;
}

std::vector<char> readKernels(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kBadFile, path.string(), ": the CUDA kernels are not there");
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  if (!isWholeFatbin(bytes) && !isWholeCubin(bytes)) {
    fail(ErrorCode::kBadFile, path.string(), " is torn or no file of CUDA kernels");
  }
  return bytes;
}

}  // namespace

std::string afterFatalGpuError(int error) {
  // The values of cudaError_t (driver_types.h of CUDA 13.0) that leave the process in an
  // inconsistent state: illegal address, timeout, the kernels' own exceptions, launch failure and
  // their like.
  constexpr int kFatal[] = {226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};
  if (std::find(std::begin(kFatal), std::end(kFatal), error) == std::end(kFatal)) return "";
  return "; CUDA does nothing more in this process, so start it again, with ACOER_KERNELS=aten to "
         "leave out acoer's CUDA kernels";
}

std::string CudaRuntime::takeError(int error) const {
  if (getLastError != nullptr) getLastError();
  const std::string text = getErrorString == nullptr ? "" : getErrorString(error);
  return (text.empty() ? "error " + std::to_string(error) : text) + afterFatalGpuError(error);
}

CudaRuntime loadedCudaRuntime() {
  CudaRuntime runtime;
  lookUp(runtime.libraryLoadData, "cudaLibraryLoadData");
  lookUp(runtime.libraryGetKernel, "cudaLibraryGetKernel");
  lookUp(runtime.libraryUnload, "cudaLibraryUnload");
  lookUp(runtime.launchKernel, "cudaLaunchKernel");
  lookUp(runtime.getErrorString, "cudaGetErrorString");
  lookUp(runtime.getLastError, "cudaGetLastError");
  lookUp(runtime.driverGetVersion, "cudaDriverGetVersion");
  lookUp(runtime.getDevice, "cudaGetDevice");
  lookUp(runtime.setDevice, "cudaSetDevice");
  lookUp(runtime.deviceGetAttribute, "cudaDeviceGetAttribute");
  lookUp(runtime.streamBeginCapture, "cudaStreamBeginCapture");
  lookUp(runtime.streamEndCapture, "cudaStreamEndCapture");
  lookUp(runtime.graphInstantiate, "cudaGraphInstantiate");
  lookUp(runtime.graphLaunch, "cudaGraphLaunch");
  lookUp(runtime.graphDestroy, "cudaGraphDestroy");
  lookUp(runtime.graphExecDestroy, "cudaGraphExecDestroy");
  return runtime;
}

GpuKernels::GpuKernels(const std::filesystem::path& file, const CudaRuntime& runtime)
    : runtime_(runtime) {
  requireFunctions(runtime);
  const std::vector<char> bytes = readKernels(file);
  void* library = nullptr;
  const int loaded =
      runtime.libraryLoadData(&library, bytes.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (loaded != 0) {
    fail(ErrorCode::kDevice, "the CUDA runtime does not load ", file.string(), ": ",
         runtime.takeError(loaded));
  }
  library_ = {library, [runtime](void* unused) {
                if (const int result = runtime.libraryUnload(unused)) runtime.takeError(result);
              }};
  for (size_t i = 0; i < kernels_.size(); ++i) {
    const char* name = cuda::kKernels[i].name;
    int found = runtime.libraryGetKernel(&kernels_[i], library, name);
    for (std::string wider = cuda::widerKernel(name); found != 0 && !wider.empty();
         wider = cuda::widerKernel(wider)) {
      runtime.takeError(found);
      found = runtime.libraryGetKernel(&kernels_[i], library, wider.c_str());
    }
    if (found == 0) continue;
    fail(ErrorCode::kBadFile, file.string(), " gives no kernel ", name,
         " for this GPU: ", runtime.takeError(found));
  }
}

void GpuKernels::launchWith(cuda::KernelId id, LaunchSize grid, void* args, size_t argsBytes,
                            void* stream) const {
  const cuda::KernelInfo& info = cuda::kernelInfo(id);
  if (argsBytes != info.argsBytes) {
    fail(ErrorCode::kInternal, info.name, " was given another kernel's argument");
  }
  void* argList[] = {args};
  const int launched = runtime_.launchKernel(kernels_[static_cast<size_t>(id)], grid,
                                             {info.threads, 1, 1}, argList, 0, stream);
  if (launched != 0) {
    fail(ErrorCode::kDevice, "the CUDA kernel ", info.name,
         " did not start: ", runtime_.takeError(launched));
  }
}

GpuKernelChoice chooseGpuKernels(const std::string& setting, const std::filesystem::path& file,
                                 const CudaRuntime& runtime) {
  if (setting == "aten") return {nullptr, "ACOER_KERNELS=aten asks for libtorch's operations"};
  if (!setting.empty() && setting != "check") {
    fail(ErrorCode::kBadArgument, "ACOER_KERNELS is \"", setting,
         "\"; it is aten, check or not set at all");
  }
  try {
    return {std::make_unique<const GpuKernels>(file, runtime), "", file};
  } catch (const EngineError& error) {
    return {nullptr, error.what()};
  }
}

void* currentGpuStream(c10::Device device) {
  static int onlyStream;
  if (device.is_cpu()) return &onlyStream;
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 12
  return stream.native_handle();
#else
  // c10::cuda::CUDAStream::stream() const; a CUDAStream holds nothing but a Stream.
  constexpr const char* kName = "_ZNK3c104cuda10CUDAStream6streamEv";
  static const auto handleOf =
      reinterpret_cast<void* (*)(const c10::Stream*)>(dlsym(RTLD_DEFAULT, kName));
  if (handleOf == nullptr) fail(ErrorCode::kDevice, "libtorch does not tell its CUDA stream");
  return handleOf(&stream);
#endif
}

void waitForGpu(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::getDeviceGuardImpl(device.type())->getStream(device).synchronize();
}

static GpuKernelChoice chooseFor(c10::Device device) {
  const c10::DeviceGuard guard(device);
  const char* value = std::getenv("ACOER_KERNELS");
  const std::string setting = value == nullptr ? "" : value;
  const CudaRuntime runtime = loadedCudaRuntime();
  // ACOER_KERNELS is judged first: its user knows why there are none.
  if (!setting.empty() && setting != "check") return chooseGpuKernels(setting, {}, runtime);
  const KernelSource source = kernelSource(currentCard(runtime), runtime, loadedCudaDriver());
  if (!source.reason.empty()) return {nullptr, source.reason};
  return chooseGpuKernels(setting, ownFolder() / source.file, source.runtime);
}

const GpuKernelChoice& gpuKernels(c10::Device device) {
  // Never destroyed: CUDA may be gone when the process ends.
  static auto* mutex = new std::mutex;
  static auto* choices = new std::map<c10::DeviceIndex, GpuKernelChoice>;
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto known = choices->find(device.index());
  if (known != choices->end()) return known->second;
  return choices->emplace(device.index(), chooseFor(device)).first->second;
}

const GpuKernels* gpuKernelsFor(c10::Device device) {
  return device.is_cuda() ? gpuKernels(device).kernels.get() : nullptr;
}

}  // namespace acoer
