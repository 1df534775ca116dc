// A CUDA call of ours that fails leaves libtorch able to go on: no error of it is pending when
// libtorch asks, after its own next launch.
#include <ATen/ATen.h>

#include <filesystem>

#include "base/device.h"
#include "check_support.h"
#include "kernels/gpu/kernels.h"

namespace acoer::null_cuda {
namespace {

constexpr int kNoKernelImage = 209, kInvalidValue = 1, kOutOfMemory = 2, kIllegalAddress = 700,
              kCaptureUnsupported = 900;

std::filesystem::path fatbin() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kernels.fatbin";
}

c10::Device device() {
  const c10::Device resolved = resolveDevice("cuda");
  computeOn(resolved);
  return resolved;
}

void checkLibtorchWorks() {
  ACOER_CHECK(pendingError() == 0);
  at::ones({64}, at::device(device())).add_(1);
}

ACOER_TEST(bare_failed_load_leaves_no_error) {
  device();
  for (const char* function : {"cudaLibraryLoadData", "cudaLibraryGetKernel"}) {
    failNext(function, kNoKernelImage);
    chooseGpuKernels("", fatbin(), loadedCudaRuntime());
    checkLibtorchWorks();
  }
  {
    const GpuKernelChoice choice = chooseGpuKernels("", fatbin(), loadedCudaRuntime());
    failNext("cudaLibraryUnload", kInvalidValue);
  }
  checkLibtorchWorks();
}

ACOER_TEST(bare_failed_launch_leaves_no_error) {
  const c10::Device where = device();
  const GpuKernelChoice choice = chooseGpuKernels("", fatbin(), loadedCudaRuntime());
  ACOER_CHECK(choice.kernels != nullptr);
  const auto launch = [&] {
    choice.kernels->launch(cuda::KernelId::norm_bf16, {1, 1, 1}, cuda::NormArgs{},
                           currentGpuStream(where));
  };
  failNext("cudaLaunchKernel", kInvalidValue);
  ACOER_CHECK_THROWS(launch(), ErrorCode::kDevice, "acoer_norm_bf16 did not start");
  checkLibtorchWorks();
  failNext("cudaLaunchKernel", kIllegalAddress);
  ACOER_CHECK_THROWS(launch(), ErrorCode::kDevice, "ACOER_KERNELS=aten");
}

// A recording that fails is done piece by piece, and the call says why; a graph that does not start
// ends the call.
ACOER_TEST(bare_failed_graphs_leave_no_error) {
  const auto model = qwen("cuda");
  const auto decode = [&] { return run(*model, request(nullptr, 20, 3, 20), {}); };
  for (const char* function :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate"}) {
    failNext(function, kCaptureUnsupported);
    const GenerateStats stats = decode();
    ACOER_CHECK(stats.newTokens == 60);
    ACOER_CHECK(stats.fallback.find("a CUDA graph could not be") == 0);
    checkLibtorchWorks();
  }
  for (const char* function : {"cudaGraphDestroy", "cudaGraphExecDestroy"}) {
    failNext(function, kInvalidValue);
    ACOER_CHECK(decode().fallback.empty());
    checkLibtorchWorks();
  }
  failNext("cudaGraphLaunch", kOutOfMemory);
  ACOER_CHECK_THROWS(decode(), ErrorCode::kDevice, "could not be started");
  checkLibtorchWorks();
}

}  // namespace
}  // namespace acoer::null_cuda
