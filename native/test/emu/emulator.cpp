// The emulator itself: what it computes, and the mistakes that it must report.
#include "check.h"
#include "kernels/port.cuh"
#include "kernels/reduce.cuh"

namespace {

struct Args {
  float* out;
  int mode;
};

// Expects a KernelError whose message holds `part`.
void expectError(void (*kernel)(Args), unsigned threads, int mode, const std::string& part) {
  try {
    emu::launch(kernel, dim3(1), dim3(threads), 0, Args{nullptr, mode});
  } catch (const emu::KernelError& error) {
    if (std::string(error.what()).find(part) == std::string::npos) {
      emu::fail(std::string("another error than expected: ") + error.what());
    }
    return;
  }
  emu::fail("no error was reported; expected one with '" + part + "'");
}

void warpOperations(Args a) {
  const unsigned lane = threadIdx.x % 32;
  const float value = static_cast<float>(lane);
  bool ok = __shfl_sync(~0u, value, 5) == 5 && __shfl_xor_sync(~0u, value, 3) == float(lane ^ 3u);
  ok &= __shfl_down_sync(~0u, value, 4) == float(lane + 4 < 32 ? lane + 4 : lane);
  ok &= __shfl_up_sync(~0u, value, 4) == float(lane >= 4 ? lane - 4 : lane);
  ok &= __ballot_sync(~0u, lane % 2) == 0xAAAAAAAAu;
  ok &= __any_sync(~0u, lane == 7) && !__any_sync(~0u, lane == 32);
  ok &= __all_sync(~0u, lane < 32) && !__all_sync(~0u, lane == 7);
  // Half a warp for itself; a lane outside the mask has nothing to give.
  const uint32_t half = lane < 16 ? 0xFFFFu : 0xFFFF0000u;
  ok &= __shfl_xor_sync(half, value, 1) == float(lane ^ 1u);
  ok &= std::isnan(__shfl_xor_sync(half, value, 16));
  ok &= acoer::cuda::warpSum(value) == 496 && acoer::cuda::warpMax(-value) == 0;
  a.out[blockIdx.x * blockDim.x + threadIdx.x] = ok;
}

void differentBarriers(Args) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

void divergentShuffle(Args a) {
  if (a.mode == 0 && threadIdx.x == 7) return;
  if (a.mode == 1 && threadIdx.x == 7) __syncthreads();
  if (a.mode == 2 && threadIdx.x == 7) {
    __syncwarp();
  } else {
    __syncwarp();
  }
}

// Each thread hands its number to its neighbour, across warps. mode 1: without the barrier.
void neighbour(Args a) {
  ACOER_SHARED_ARRAY(float, numbers, 128);
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (a.mode == 0) __syncthreads();
  a.out[threadIdx.x] = numbers[(threadIdx.x + 1) % 128];
}

}  // namespace

EMU_TEST(emulator_warp_operations) {
  emu::forEachSchedule([] {
    std::vector<float> out(2 * 96, 0);
    emu::launch(warpOperations, dim3(2), dim3(96), 0, Args{out.data(), 0});
    for (const float ok : out) emu::expectNear(ok, 1, 0, "a warp operation");
  });
}

EMU_TEST(emulator_reports_divergence) {
  emu::forEachSchedule([] {
    expectError(differentBarriers, 64, 0, "different barriers");
    expectError(divergentShuffle, 32, 0, "lane 7 has ended");
    expectError(divergentShuffle, 32, 1, "waits at emulator.cpp:");
    expectError(divergentShuffle, 32, 2, "waits at emulator.cpp:");
  });
}

EMU_TEST(emulator_shows_missing_barriers) {
  int found = 0;
  emu::forEachSchedule([&] {
    for (const int mode : {0, 1}) {
      std::vector<float> out(128, 0);
      emu::launch(neighbour, dim3(1), dim3(128), 0, Args{out.data(), mode});
      bool wrong = false;
      for (size_t i = 0; i < 128; ++i) wrong |= !(out[i] == static_cast<float>((i + 1) % 128));
      if (mode == 0 && wrong) emu::fail("wrong with the barrier");
      if (mode == 1) found += wrong;
    }
  });
  if (found < 3) emu::fail("a missing barrier went unnoticed");
}
