// CUDA C++ kernels on a CPU, for tests: the threads of a block are fibers of one thread, which
// switch only at barriers and warp operations. The order in which fibers run between two barriers
// is drawn from a seed, so a missing barrier shows up as a wrong result for some seed. Compiled
// with AddressSanitizer it finds shared and global accesses out of bounds (shared memory is a heap
// block of exactly the requested size). Not emulated: memory ordering between blocks, the timing of
// asynchronous copies, textures.
//
// A kernel file includes "cuda_port.h" instead of this, uses ACOER_SHARED for dynamic shared memory
// and ACOER_LAUNCH instead of <<<>>>, and compiles with nvcc and with g++.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

struct EmuIndex {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
using cudaStream_t = void*;

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 v) {
  const uint32_t u = uint32_t{v.bits} << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline __nv_bfloat16 __float2bfloat16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  if ((u & 0x7FFFFFFF) > 0x7F800000) return {uint16_t(u >> 16 | 0x40)};
  return {uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16)};
}

// Saves the callee-saved registers and swaps stacks: tens of times faster than swapcontext.
extern "C" void acoerEmuSwitch(void** saveSp, void* toSp);
asm(R"(
.text
.weak acoerEmuSwitch
.type acoerEmuSwitch,@function
acoerEmuSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace emu {

enum Wait { kRuns, kBlockBarrier, kWarpBarrier };

struct Fiber {
  void* sp = nullptr;
  char* stack = nullptr;
  EmuIndex thread;
  bool done = false;
  Wait waiting = kRuns;
};

struct Block {
  void* schedulerSp = nullptr;
  std::vector<Fiber> fibers;
  Fiber* now = nullptr;
  std::unique_ptr<char[]> shared;
  EmuIndex index;
  dim3 grid, block;
  std::vector<uint64_t> exchange;  // one slot per thread for warp operations
  std::function<void()> body;
};
inline Block*& current() {
  static Block* b = nullptr;
  return b;
}

inline void yieldAt(Wait kind) {
  Block& b = *current();
  Fiber* me = b.now;
  me->waiting = kind;
  acoerEmuSwitch(&me->sp, b.schedulerSp);
}
inline void entry() {
  Block& b = *current();
  b.body();
  b.now->done = true;
  acoerEmuSwitch(&b.now->sp, b.schedulerSp);
}
inline unsigned linear() {
  const Block& b = *current();
  return b.now->thread.x + b.block.x * (b.now->thread.y + b.block.y * b.now->thread.z);
}

constexpr size_t kStack = 64 << 10;
inline char* stackOf(unsigned thread) {
  static std::vector<std::unique_ptr<char[]>> stacks;
  while (stacks.size() <= thread) stacks.push_back(std::make_unique<char[]>(kStack));
  return stacks[thread].get();
}

// Runs one warp, its lanes in a new order each time, until all of it waits at a warp barrier or at
// the block's, or has ended. False: nothing ran.
inline bool runWarp(Block& b, unsigned begin, unsigned end, std::mt19937_64& random) {
  unsigned order[32], n = 0;
  for (unsigned t = begin; t < end; ++t) order[n++] = t;
  for (unsigned i = n; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  bool ran = false;
  for (unsigned i = 0; i < n; ++i) {
    Fiber& f = b.fibers[order[i]];
    if (f.done || f.waiting != kRuns) continue;
    ran = true;
    b.now = &f;
    acoerEmuSwitch(&b.schedulerSp, f.sp);
  }
  bool all = true;
  for (unsigned t = begin; t < end; ++t)
    all = all && !b.fibers[t].done && b.fibers[t].waiting == kWarpBarrier;
  if (all)
    for (unsigned t = begin; t < end; ++t) b.fibers[t].waiting = kRuns;
  return ran || all;
}

// One warp runs ahead of the others as far as barriers allow; now and then another is chosen.
inline void runBlock(Block& b, std::mt19937_64& random) {
  const unsigned count = b.block.x * b.block.y * b.block.z, warps = (count + 31) / 32;
  b.fibers.assign(count, {});
  b.exchange.assign(count, 0);
  current() = &b;
  for (unsigned t = 0; t < count; ++t) {
    Fiber& f = b.fibers[t];
    f.thread = {t % b.block.x, t / b.block.x % b.block.y, t / b.block.x / b.block.y};
    f.stack = stackOf(t);
    auto top = reinterpret_cast<uintptr_t>(f.stack + kStack) & ~uintptr_t{15};
    auto* sp = reinterpret_cast<void**>(top);
    *--sp = nullptr;  // the alignment that a called function expects
    *--sp = reinterpret_cast<void*>(&entry);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
    f.sp = sp;
  }
  for (;;) {
    bool ran = false;
    const unsigned first = unsigned(random() % warps);
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned w = (first + i) % warps;
      const unsigned begin = 32 * w, end = std::min(count, begin + 32);
      while (runWarp(b, begin, end, random)) {
        ran = true;
        if (random() % 64 == 0) break;
      }
    }
    if (ran) continue;
    bool done = true, block = true;
    for (const Fiber& f : b.fibers) {
      done = done && f.done;
      block = block && (f.done || f.waiting == kBlockBarrier);
    }
    if (done) return;
    if (!block) {
      std::fprintf(stderr, "emu: deadlock: threads wait at different barriers\n");
      std::abort();
    }
    for (Fiber& f : b.fibers) f.waiting = kRuns;
  }
}

inline uint64_t& seed() {
  static uint64_t s = 1;
  return s;
}

template <class Kernel, class... Args>
void launch(Kernel kernel, dim3 grid, dim3 block, size_t sharedBytes, Args... args) {
  std::mt19937_64 random(seed());
  std::vector<unsigned> order(grid.x * grid.y * grid.z);
  for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);  // blocks run in any order too
  for (unsigned i : order) {
    Block b;
    b.grid = grid;
    b.block = block;
    b.index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
    b.shared = std::make_unique_for_overwrite<char[]>(sharedBytes);
    std::memset(b.shared.get(), 0xFF, sharedBytes);  // NaN: reads of unwritten memory show up
    b.body = [&] { kernel(args...); };
    runBlock(b, random);
  }
}

template <class T>
T exchange(T value, unsigned fromLane) {
  Block& b = *current();
  const unsigned me = linear();
  std::memcpy(&b.exchange[me], &value, sizeof(T));
  yieldAt(kWarpBarrier);
  T out;
  std::memcpy(&out, &b.exchange[me / 32 * 32 + fromLane], sizeof(T));
  yieldAt(kWarpBarrier);
  return out;
}

}  // namespace emu

#define threadIdx (emu::current()->now->thread)
#define blockIdx (emu::current()->index)
#define blockDim (emu::current()->block)
#define gridDim (emu::current()->grid)
inline void __syncthreads() { emu::yieldAt(emu::kBlockBarrier); }
inline void __syncwarp(unsigned = ~0u) { emu::yieldAt(emu::kWarpBarrier); }
template <class T>
T __shfl_xor_sync(unsigned, T v, int mask) {
  return emu::exchange(v, (emu::linear() % 32) ^ unsigned(mask));
}
template <class T>
T __shfl_sync(unsigned, T v, int lane) {
  return emu::exchange(v, unsigned(lane));
}
inline float __expf(float x) { return std::exp(x); }

#define ACOER_SHARED(type, name) type* name = reinterpret_cast<type*>(emu::current()->shared.get())
#define ACOER_LAUNCH(kernel, grid, block, shared, stream, ...) \
  emu::launch(kernel, grid, block, shared, __VA_ARGS__)
