// Which kernels a driver and a card get, and kernels through the driver, against a CUDA runtime and
// a driver of the test's own. No driver and no card has run any of it.
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "check.h"
#include "kernels/gpu/card.h"

namespace acoer::check {
namespace {

constexpr int kNotFound = 500;  // CUDA_ERROR_NOT_FOUND
constexpr int kNotReady = 3;    // cudaErrorInitializationError

// What the stand-ins answer and what they were asked; the functions of both structs hold no state.
struct State {
  int driverCuda = 12040, capability = 86, attributeError = 0;
  int forgotten = 0, setDevice = -1, unloads = 0, loads = 0;
  bool hasContext = true;
  std::string missing;  // a kernel that the file does not have
  std::vector<std::string> names;
  void* launched = nullptr;
  unsigned size[7] = {};
  void* stream = nullptr;
  cuda::NormArgs norm{};
};
State state;
int moduleMark;

CudaRuntime fakeRuntime(bool libraries = true) {
  CudaRuntime runtime;
  if (libraries) {
    runtime.libraryLoadData = [](void**, const void*, void*, void**, unsigned, void*, void**,
                                 unsigned) { return 0; };
    runtime.libraryGetKernel = [](void**, void*, const char*) { return 0; };
    runtime.libraryUnload = [](void*) { return 0; };
  }
  runtime.launchKernel = [](const void*, LaunchSize, LaunchSize, void**, size_t, void*) {
    return 0;
  };
  runtime.getErrorString = [](int error) {
    return error == kNotFound ? "named symbol not found" : "some error";
  };
  runtime.getLastError = [] { return ++state.forgotten, 0; };
  runtime.driverGetVersion = [](int* version) { return *version = state.driverCuda, 0; };
  runtime.getDevice = [](int* device) { return *device = 1, 0; };
  runtime.setDevice = [](int device) {
    state.setDevice = device;
    state.hasContext = true;
    return 0;
  };
  runtime.deviceGetAttribute = [](int* value, int attribute, int device) {
    if (state.attributeError != 0 || device != 1) return kNotReady;
    *value = attribute == 75 ? state.capability / 10 : attribute == 76 ? state.capability % 10 : -1;
    return 0;
  };
  return runtime;
}

CudaDriver fakeDriver() {
  CudaDriver driver;
  driver.moduleLoadData = [](void** module, const void* image) {
    if (!state.hasContext) return 201;  // CUDA_ERROR_INVALID_CONTEXT
    ++state.loads;
    *module = &moduleMark;
    return std::memcmp(image,
                       "\x7f"
                       "ELF",
                       4) == 0
               ? 0
               : 200;
  };
  driver.moduleGetFunction = [](void** function, void* module, const char* name) {
    if (module != &moduleMark || state.missing == name) return kNotFound;
    // As in the set of older drivers.
    const std::string kernel = name;
    const bool fp32 = kernel.rfind("acoer_attention_fp32_", 0) == 0;
    if (fp32 && kernel.back() != '1' && kernel.back() != '8') return kNotFound;
    const bool int8 = kernel.rfind("acoer_attention_bf16_int8_", 0) == 0;
    if (int8 && kernel.back() != '4' && kernel.back() != '8') return kNotFound;
    state.names.push_back(kernel);
    *function = reinterpret_cast<void*>(state.names.size());
    return 0;
  };
  driver.moduleUnload = [](void*) { return ++state.unloads, 0; };
  driver.launchKernel = [](void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                           unsigned by, unsigned bz, unsigned shared, void* stream, void** args,
                           void** extra) {
    if (!state.hasContext || extra != nullptr) return 201;
    state.launched = function;
    const unsigned size[] = {gx, gy, gz, bx, by, bz, shared};
    std::memcpy(state.size, size, sizeof size);
    state.stream = stream;
    std::memcpy(&state.norm, args[0], sizeof state.norm);
    return 0;
  };
  driver.ctxGetCurrent = [](void** context) {
    *context = state.hasContext ? &moduleMark : nullptr;
    return 0;
  };
  return driver;
}

KernelSource sourceFor(int driverCuda, int capability, bool libraries = true,
                       const CudaDriver& driver = fakeDriver()) {
  state = {};
  state.driverCuda = driverCuda;
  state.capability = capability;
  const CudaRuntime runtime = fakeRuntime(libraries);
  GpuCard card = currentCard(runtime);
  ACOER_CHECK(card.driverCuda == driverCuda && card.capability == capability);
  card.driver = "550.54.14";
  return kernelSource(card, runtime, driver);
}

std::filesystem::path realFile(const char* name) {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&realFile), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / name;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

ACOER_TEST(gpu_card_chooses_a_file) {
  const struct {
    int driverCuda, capability;
    bool libraries;
    const char* file;
  } cases[] = {
      {13000, 80, true, "kernels.fatbin"},
      {13000, 90, true, "kernels.fatbin"},
      {13020, 120, true, "kernels.fatbin"},
      {0, 86, true, "kernels.fatbin"},
      {12000, 80, true, "cuda12/sm_80.cubin"},
      {12040, 86, true, "cuda12/sm_86.cubin"},
      {12080, 89, true, "cuda12/sm_86.cubin"},
      {12090, 90, true, "cuda12/sm_90.cubin"},
      // torch for CUDA 12.6 on a new driver: its runtime has no functions for libraries.
      {13000, 86, false, "cuda12/sm_86.cubin"},
  };
  for (const auto& one : cases) {
    const KernelSource source = sourceFor(one.driverCuda, one.capability, one.libraries);
    ACOER_CHECK(source.reason.empty());
    ACOER_CHECK(source.file == one.file);
    ACOER_CHECK(std::filesystem::exists(realFile(one.file)));
  }
}

ACOER_TEST(gpu_card_says_what_is_missing) {
  const std::string end = ": libtorch's operations do their work";
  const struct {
    int driverCuda, capability;
    const char* reason;
  } cases[] = {
      {13000, 75,
       "acoer's CUDA kernels need a card of compute capability 8.0 or newer; this one has 7.5"},
      {12040, 70,
       "acoer's CUDA kernels need a card of compute capability 8.0 or newer; this one has 7.0"},
      {11080, 86,
       "acoer's CUDA kernels need NVIDIA driver 525 or newer; this one is 550.54.14, for CUDA "
       "11.8"},
      {12080, 120,
       "acoer's CUDA kernels need NVIDIA driver 580 or newer on a card of compute capability 12.0; "
       "this driver is 550.54.14, for CUDA 12.8"},
  };
  for (const auto& one : cases) {
    const KernelSource source = sourceFor(one.driverCuda, one.capability);
    ACOER_CHECK(source.file.empty() && source.reason == one.reason + end);
  }
  ACOER_CHECK(sourceFor(13000, 120, false).reason ==
              "acoer's CUDA kernels need a libtorch for CUDA 12.8 or newer on a card of compute "
              "capability 12.0" +
                  end);
  ACOER_CHECK(holds(sourceFor(12040, 86, true, {}).reason, "driver library is not loaded"));
  GpuCard card;
  card.driverCuda = 11080;
  card.capability = 86;
  ACOER_CHECK(holds(kernelSource(card, fakeRuntime(), fakeDriver()).reason,
                    "this one is for CUDA 11.8: libtorch's"));
}

// A question that fails leaves no error behind, and an unknown card is not guessed at.
ACOER_TEST(gpu_card_without_answers) {
  state = {};
  state.attributeError = kNotReady;
  const GpuCard card = currentCard(fakeRuntime());
  ACOER_CHECK(card.driverCuda == 12040 && card.capability == 0 && state.forgotten == 2);
  ACOER_CHECK(holds(kernelSource(card, fakeRuntime(), fakeDriver()).reason,
                    "does not tell this card's compute capability"));
  const GpuCard silent = currentCard({});
  ACOER_CHECK(silent.driverCuda == 0 && silent.capability == 0);
  ACOER_CHECK(kernelSource(silent, {}, {}).file == "kernels.fatbin");
}

ACOER_TEST(gpu_card_reads_the_driver_s_version) {
  ACOER_CHECK(driverVersionIn("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May "
                              "12 19:39:15 UTC 2024\nGCC version: 12.2.0\n") == "535.183.01");
  ACOER_CHECK(driverVersionIn("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06 "
                              " Release Build\n") == "580.65.06");
  ACOER_CHECK(driverVersionIn("").empty());
}

ACOER_TEST(gpu_card_loads_and_launches_through_the_driver) {
  const KernelSource source = sourceFor(12040, 86, false);
  state.hasContext = false;  // as on a thread that the runtime has not met
  {
    const GpuKernels kernels(realFile("cuda12/sm_86.cubin"), source.runtime);
    ACOER_CHECK(state.loads == 1 && state.setDevice == 1);
    ACOER_CHECK(state.names.size() == cuda::kKernelCount);
    state.hasContext = false;
    state.setDevice = -1;
    int x = 0, stream = 0;
    const cuda::NormArgs args{&x, nullptr, nullptr, nullptr, 64, 1e-6F};
    kernels.launch(cuda::KernelId::norm_fp32, {7, 3, 2}, args, &stream);
    ACOER_CHECK(state.setDevice == 1 && state.stream == &stream && state.norm.x_ND == &x);
    ACOER_CHECK(state.names[reinterpret_cast<size_t>(state.launched) - 1] == "acoer_norm_fp32");
    const unsigned size[] = {7, 3, 2, cuda::kNormThreads, 1, 1, 0};
    ACOER_CHECK(std::memcmp(state.size, size, sizeof size) == 0);
  }
  ACOER_CHECK(state.unloads == 1);
}

// The fp32 attention of groups of 2, 4 and 6 is that of 8 there, and over a cache in int8 that of 1
// and 2 is that of 4, that of 6 is that of 8; nothing else is replaced.
ACOER_TEST(gpu_card_older_set_has_fewer_kernels) {
  KernelSource source = sourceFor(12040, 86);
  {
    const GpuKernels kernels(realFile("cuda12/sm_80.cubin"), source.runtime);
  }
  std::vector<std::string> expected;
  for (const cuda::KernelInfo& kernel : cuda::kKernels) {
    std::string name = kernel.name;
    const bool fp32 = holds(name, "attention_fp32");
    if (fp32 && name.back() != '1') name.back() = '8';
    if (holds(name, "attention_bf16_int8")) name.back() = name.back() <= '4' ? '4' : '8';
    expected.push_back(name);
  }
  ACOER_CHECK(state.names == expected);
  source = sourceFor(12040, 86);
  state.missing = "acoer_attention_bf16_64_g2";
  const GpuKernelChoice choice =
      chooseGpuKernels("", realFile("cuda12/sm_80.cubin"), source.runtime);
  ACOER_CHECK(choice.kernels == nullptr && state.unloads == 1);
  ACOER_CHECK(holds(choice.reason, "gives no kernel acoer_attention_bf16_64_g2 for this GPU: "));
}

ACOER_TEST(gpu_card_torn_machine_code) {
  const KernelSource source = sourceFor(12040, 86);
  std::ifstream file(realFile("cuda12/sm_90.cubin"), std::ios::binary);
  const std::vector<char> whole((std::istreambuf_iterator<char>(file)), {});
  ACOER_CHECK(whole.size() > 100'000);
  const auto path = std::filesystem::temp_directory_path() /
                    ("acoer-cubin-" + std::to_string(reinterpret_cast<uintptr_t>(&whole)));
  for (const size_t bytes : {size_t{0}, size_t{63}, whole.size() / 2, whole.size() - 1}) {
    std::ofstream(path, std::ios::binary).write(whole.data(), static_cast<std::streamsize>(bytes));
    ACOER_CHECK(holds(chooseGpuKernels("", path, source.runtime).reason, "is torn or no file"));
  }
  std::filesystem::remove(path);
  ACOER_CHECK(state.loads == 0);
}

}  // namespace acoer::check
