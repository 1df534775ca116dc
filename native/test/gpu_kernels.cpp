// The loader of the CUDA kernels against a CUDA runtime of the test's own: files, names, launches.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "check.h"
#include "kernels/gpu/kernels.h"

namespace acoer::check {
namespace {

constexpr int kNotFound = 500;  // cudaErrorSymbolNotFound
constexpr int kBadImage = 200;
constexpr int kIllegalAddress = 700;

// What the runtime was asked for; the functions of CudaRuntime hold no state.
struct Calls {
  std::vector<std::string> names;
  std::string missingName;
  int loadError = 0, launchError = 0, unloadError = 0, unloads = 0;
  int lastError = 0;  // what libtorch would find after its own next launch
  const void* kernel = nullptr;
  LaunchSize grid, block;
  size_t sharedBytes = 1;
  void* stream = nullptr;
  cuda::NormArgs norm{};
};
Calls calls;
int libraryMark;

int answer(int error) {
  if (error != 0) calls.lastError = error;
  return error;
}

CudaRuntime fakeRuntime() {
  calls = {};
  CudaRuntime runtime;
  runtime.getLastError = [] { return std::exchange(calls.lastError, 0); };
  runtime.libraryLoadData = [](void** library, const void* code, void*, void**, unsigned, void*,
                               void**, unsigned) {
    *library = &libraryMark;
    uint32_t magic;
    std::memcpy(&magic, code, sizeof magic);
    return answer(magic == 0xBA55ED50 ? calls.loadError : kBadImage);
  };
  // A kernel's handle is its number in the order of the questions, from 1.
  runtime.libraryGetKernel = [](void** kernel, void* library, const char* name) {
    if (library != &libraryMark || calls.missingName == name) return answer(kNotFound);
    calls.names.push_back(name);
    *kernel = reinterpret_cast<void*>(calls.names.size());
    return 0;
  };
  runtime.libraryUnload = [](void*) {
    ++calls.unloads;
    return answer(calls.unloadError);
  };
  runtime.launchKernel = [](const void* kernel, LaunchSize grid, LaunchSize block, void** args,
                            size_t sharedBytes, void* stream) {
    calls.kernel = kernel;
    calls.grid = grid;
    calls.block = block;
    calls.sharedBytes = sharedBytes;
    calls.stream = stream;
    std::memcpy(&calls.norm, args[0], sizeof calls.norm);
    return answer(calls.launchError);
  };
  runtime.getErrorString = [](int error) {
    return error == kNotFound ? "named symbol not found" : "some error";
  };
  return runtime;
}

// A file of the test's own, gone with it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::vector<char>& bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("acoer-fatbin-" + std::to_string(reinterpret_cast<uintptr_t>(this)))) {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A header of 16 bytes and a body of 32 zeros.
std::vector<char> smallFatbin() {
  std::vector<char> bytes(48, 0);
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1, headerBytes = 16;
  const uint64_t bodyBytes = 32;
  std::memcpy(bytes.data(), &magic, 4);
  std::memcpy(bytes.data() + 4, &version, 2);
  std::memcpy(bytes.data() + 6, &headerBytes, 2);
  std::memcpy(bytes.data() + 8, &bodyBytes, 8);
  return bytes;
}

std::string reasonAgainst(const std::vector<char>& bytes) {
  const TemporaryFile file(bytes);
  const GpuKernelChoice choice = chooseGpuKernels("", file.path(), fakeRuntime());
  ACOER_CHECK(choice.kernels == nullptr);
  return choice.reason;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

ACOER_TEST(gpu_kernels_launch) {
  const TemporaryFile file(smallFatbin());
  const GpuKernelChoice choice = chooseGpuKernels("", file.path(), fakeRuntime());
  ACOER_CHECK(choice.kernels != nullptr && choice.reason.empty());
  ACOER_CHECK(calls.names.size() == cuda::kKernelCount && calls.names[1] == "acoer_norm_fp32");
  int x = 0, stream = 0;
  const cuda::NormArgs args{&x, nullptr, nullptr, nullptr, 64, 1e-6F};
  choice.kernels->launch(cuda::KernelId::norm_fp32, {7, 3, 2}, args, &stream);
  ACOER_CHECK(calls.kernel == reinterpret_cast<void*>(2));
  ACOER_CHECK(calls.grid.x == 7 && calls.grid.y == 3 && calls.grid.z == 2);
  ACOER_CHECK(calls.block.x == cuda::kNormThreads && calls.block.y == 1 && calls.block.z == 1);
  ACOER_CHECK(calls.sharedBytes == 0 && calls.stream == &stream);
  ACOER_CHECK(calls.norm.x_ND == &x && calls.norm.width == 64 && calls.norm.eps == 1e-6F);
  calls.launchError = 1;
  ACOER_CHECK_THROWS(choice.kernels->launch(cuda::KernelId::norm_fp32, {}, args, nullptr),
                     ErrorCode::kDevice, "acoer_norm_fp32 did not start: some error");
  ACOER_CHECK_THROWS(choice.kernels->launch(cuda::KernelId::sampler_draw, {}, args, nullptr),
                     ErrorCode::kInternal, "acoer_sampler_draw was given another");
  ACOER_CHECK(calls.unloads == 0);
}

ACOER_TEST(gpu_kernels_unload) {
  const TemporaryFile file(smallFatbin());
  {
    const GpuKernels kernels(file.path(), fakeRuntime());
  }
  ACOER_CHECK(calls.unloads == 1);
}

ACOER_TEST(gpu_kernels_bad_files) {
  const GpuKernelChoice none = chooseGpuKernels("", "/nowhere/kernels.fatbin", fakeRuntime());
  ACOER_CHECK(none.kernels == nullptr);
  ACOER_CHECK(none.reason == "/nowhere/kernels.fatbin: the CUDA kernels are not there");
  ACOER_CHECK(holds(reasonAgainst({}), "is torn"));
  ACOER_CHECK(holds(reasonAgainst(std::vector<char>(10, 'x')), "is torn"));
  ACOER_CHECK(holds(reasonAgainst(std::vector<char>(48, 'x')), "is torn"));
  std::vector<char> bytes = smallFatbin();
  bytes.pop_back();
  ACOER_CHECK(holds(reasonAgainst(bytes), "is torn"));
  bytes.resize(60);
  ACOER_CHECK(holds(reasonAgainst(bytes), "is torn"));
}

ACOER_TEST(gpu_kernels_refused) {
  const TemporaryFile file(smallFatbin());
  CudaRuntime runtime = fakeRuntime();
  calls.missingName = "acoer_sampler_draw";
  GpuKernelChoice choice = chooseGpuKernels("", file.path(), runtime);
  ACOER_CHECK(choice.kernels == nullptr && calls.unloads == 1);
  ACOER_CHECK(holds(choice.reason, "no kernel acoer_sampler_draw for this GPU: named symbol"));
  calls = {};
  calls.loadError = kBadImage;
  ACOER_CHECK(holds(chooseGpuKernels("", file.path(), runtime).reason, "does not load"));
  runtime.libraryLoadData = nullptr;
  ACOER_CHECK(holds(chooseGpuKernels("", file.path(), runtime).reason,
                    "has no cudaLibraryLoadData; a libtorch built for CUDA 12.8"));
  ACOER_CHECK(holds(chooseGpuKernels("", file.path(), {}).reason, "has no cudaLaunchKernel"));
}

// libtorch asks for the last error after each of its own launches and throws it, so a failure of
// ours that it can see would end the operations that are to take over.
ACOER_TEST(gpu_kernels_leave_no_error_behind) {
  const TemporaryFile file(smallFatbin());
  const CudaRuntime runtime = fakeRuntime();
  calls.loadError = 209;  // cudaErrorNoKernelImageForDevice
  ACOER_CHECK(chooseGpuKernels("", file.path(), runtime).kernels == nullptr);
  ACOER_CHECK(calls.lastError == 0);
  calls.loadError = 0;
  calls.missingName = "acoer_adamw";
  calls.unloadError = 4;  // cudaErrorCudartUnloading
  ACOER_CHECK(chooseGpuKernels("", file.path(), runtime).kernels == nullptr);
  ACOER_CHECK(calls.unloads == 1 && calls.lastError == 0);
  calls.missingName.clear();
  {
    const GpuKernels kernels(file.path(), runtime);
    calls.launchError = kBadImage;
    const auto launch = [&] {
      kernels.launch(cuda::KernelId::norm_fp32, {}, cuda::NormArgs{}, nullptr);
    };
    ACOER_CHECK_THROWS(launch(), ErrorCode::kDevice, "did not start");
    ACOER_CHECK(calls.lastError == 0);
    calls.launchError = kIllegalAddress;
    ACOER_CHECK_THROWS(launch(), ErrorCode::kDevice,
                       "start it again, with ACOER_KERNELS=aten to leave out");
  }
  ACOER_CHECK(calls.unloads == 2 && calls.lastError == 0);
}

ACOER_TEST(gpu_kernels_advice_after_fatal_errors) {
  for (const int fatal : {kIllegalAddress, 716, 719}) {
    ACOER_CHECK(holds(afterFatalGpuError(fatal), "ACOER_KERNELS=aten"));
  }
  for (const int passing : {1, 2, kBadImage, 209, kNotFound, 900}) {
    ACOER_CHECK(afterFatalGpuError(passing).empty());
  }
}

ACOER_TEST(gpu_kernels_setting) {
  const TemporaryFile file(smallFatbin());
  const GpuKernelChoice choice = chooseGpuKernels("aten", file.path(), fakeRuntime());
  ACOER_CHECK(choice.kernels == nullptr && calls.names.empty());
  ACOER_CHECK(holds(choice.reason, "ACOER_KERNELS=aten"));
  ACOER_CHECK_THROWS(chooseGpuKernels("fast", file.path(), fakeRuntime()), ErrorCode::kBadArgument,
                     "ACOER_KERNELS is \"fast\"; it is aten, check or not set");
  ACOER_CHECK(chooseGpuKernels("check", file.path(), fakeRuntime()).file == file.path());
}

}  // namespace acoer::check
