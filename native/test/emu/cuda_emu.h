// Runs CUDA C++ kernels on a CPU, for tests. The threads of a block are fibers that change places
// only at barriers and warp operations, in an order drawn from a seed: now and then one warp runs
// ahead of all others as far as the barriers let it, so that a missing barrier shows as a wrong
// result. Shared memory is filled with NaN before each block. Compiled with AddressSanitizer,
// accesses out of bounds are found: a shared array is a heap block of its own.
//
// Reported as an error: threads of a block waiting at different barriers, warp operations that not
// all lanes of their mask reach. Not emulated: the order of memory accesses of different blocks
// (blocks run one after the other, in an order drawn from the seed), asynchronous copies, textures.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "fiber.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return __uint_as_float(uint32_t{value.bits} << 16);
}
// To the nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {0x7FFF};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

namespace emu {

// A kernel broke a rule of the execution model.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  unsigned below(unsigned bound) { return static_cast<unsigned>(next() % bound); }

 private:
  uint64_t state_;
};

// Which order of threads and blocks the next launches take.
inline uint64_t& schedule() {
  static uint64_t seed = 1;
  return seed;
}
// The planted bug that is active, 0 for none; see ACOER_PLANTED in port.cuh.
inline int& plantedBug() {
  static int number = 0;
  return number;
}

enum class State { kReady, kAtBlockBarrier, kAtWarpOperation, kEnded };

struct Thread {
  uint3 index;
  Context context;
  State state = State::kReady;
  std::source_location where;  // of the barrier or warp operation it waits at
  // The warp operation it waits at: what the lane gives, whose value it asks for, what it got.
  uint32_t mask = 0;
  unsigned source = 0;
  uint64_t given = 0, received = 0;
  uint32_t votes = 0;
};

struct Block {
  dim3 grid, size;
  uint3 index;
  std::function<void()> body;
  Context scheduler;
  std::vector<Thread> threads;
  Thread* running = nullptr;
  std::unique_ptr<char[]> dynamicShared;
  std::map<const void*, std::unique_ptr<char[]>> sharedArrays;
};
inline Block*& currentBlock() {
  static Block* block = nullptr;
  return block;
}

inline std::vector<std::unique_ptr<char[]>>& stacks() {
  static std::vector<std::unique_ptr<char[]>> all;
  return all;
}

inline unsigned linearThread() {
  return static_cast<unsigned>(currentBlock()->running - currentBlock()->threads.data());
}

// Back to the scheduler until it lets the thread go on.
inline void wait(State state, const std::source_location& where) {
  Block& block = *currentBlock();
  Thread& me = *block.running;
  me.state = state;
  me.where = where;
  switchContext(me.context, block.scheduler);
}

inline void threadEntry() {
  Block& block = *currentBlock();
  arriveOnFiber(block.scheduler);
  block.body();
  block.running->state = State::kEnded;
  switchContext(block.running->context, block.scheduler);
}

inline std::string describe(const std::source_location& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}
inline bool samePlace(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() &&
         (a.file_name() == b.file_name() || std::string_view(a.file_name()) == b.file_name());
}

// The lanes of one warp of a block.
struct Warp {
  Thread* lanes;
  unsigned count;
  uint32_t all() const { return count == 32 ? ~0u : (1u << count) - 1; }
};

// Completes every warp operation whose lanes have all arrived. False: none had.
inline bool completeWarpOperations(const Warp& warp) {
  bool any = false;
  for (unsigned first = 0; first < warp.count; ++first) {
    const Thread& leader = warp.lanes[first];
    if (leader.state != State::kAtWarpOperation) continue;
    const uint32_t members = leader.mask & warp.all();
    if (!(members >> first & 1)) {
      throw KernelError(describe(leader.where) + ": a lane is not in its own mask");
    }
    bool arrived = true;
    uint32_t votes = 0;
    for (unsigned i = 0; i < warp.count; ++i) {
      if (!(members >> i & 1)) continue;
      const Thread& lane = warp.lanes[i];
      if (lane.state == State::kReady) {
        arrived = false;
      } else if (lane.state != State::kAtWarpOperation || lane.mask != leader.mask ||
                 !samePlace(lane.where, leader.where)) {
        throw KernelError(
            describe(leader.where) + ": lane " + std::to_string(i) +
            (lane.state == State::kEnded ? " has ended" : " waits at " + describe(lane.where)) +
            " instead of taking part in the warp operation");
      }
      if (lane.given != 0) votes |= 1u << i;
    }
    if (!arrived) continue;
    for (unsigned i = 0; i < warp.count; ++i) {
      if (!(members >> i & 1)) continue;
      Thread& lane = warp.lanes[i];
      // A lane outside the mask has no value to give: NaN.
      const bool valid = lane.source < 32 && (members >> lane.source & 1);
      lane.received = valid ? warp.lanes[lane.source].given : ~uint64_t{0};
      lane.votes = votes;
    }
    for (unsigned i = 0; i < warp.count; ++i) {
      if (members >> i & 1) warp.lanes[i].state = State::kReady;
    }
    any = true;
  }
  return any;
}

// Runs every lane to its next wait, the lanes in a new order each time. False: nothing could run.
inline bool runWarp(Block& block, const Warp& warp, Random& random) {
  // i -> (step i + offset) mod 32 with an odd step visits every lane once.
  const unsigned step = random.below(16) * 2 + 1, offset = random.below(32);
  bool ran = false;
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned lane = (step * i + offset) % 32;
    if (lane >= warp.count || warp.lanes[lane].state != State::kReady) continue;
    ran = true;
    block.running = &warp.lanes[lane];
    switchContext(block.scheduler, block.running->context);
  }
  return completeWarpOperations(warp) || ran;
}

// Lets all threads pass the barrier they wait at. False: all have ended.
inline bool passBlockBarrier(Block& block) {
  const Thread* first = nullptr;
  for (Thread& thread : block.threads) {
    if (thread.state == State::kEnded) continue;
    if (first == nullptr) first = &thread;
    if (!samePlace(thread.where, first->where)) {
      throw KernelError("threads of a block wait at different barriers: " + describe(first->where) +
                        " and " + describe(thread.where));
    }
    thread.state = State::kReady;
  }
  return first != nullptr;
}

inline void runBlock(Block& block, Random& random) {
  const unsigned count = block.size.x * block.size.y * block.size.z;
  while (stacks().size() < count) {
    stacks().push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
  }
  block.threads.assign(count, {});
  for (unsigned t = 0; t < count; ++t) {
    block.threads[t].index = {t % block.size.x, t / block.size.x % block.size.y,
                              t / block.size.x / block.size.y};
    block.threads[t].context = makeFiber(stacks()[t].get(), t, threadEntry);
  }
  currentBlock() = &block;
  const unsigned warps = (count + 31) / 32;
  do {
    for (bool ran = true; ran;) {
      ran = false;
      // The first warp runs ahead of the others; seldom, another overtakes it half way.
      const unsigned first = random.below(warps);
      for (unsigned i = 0; i < warps; ++i) {
        const unsigned begin = 32 * ((first + i) % warps);
        const Warp warp{&block.threads[begin], std::min(32u, count - begin)};
        while (runWarp(block, warp, random)) {
          ran = true;
          if (random.below(64) == 0) break;
        }
      }
    }
  } while (passBlockBarrier(block));
}

template <class Args>
void emulate(void (*kernel)(Args), dim3 grid, dim3 size, size_t dynamicSharedBytes, Args args) {
  Random random(schedule());
  std::vector<unsigned> order(size_t{grid.x} * grid.y * grid.z);
  for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[random.below(static_cast<unsigned>(i))]);
  }
  for (const unsigned i : order) {
    Block block;
    block.grid = grid;
    block.size = size;
    block.index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
    block.dynamicShared = std::make_unique_for_overwrite<char[]>(dynamicSharedBytes);
    std::memset(block.dynamicShared.get(), 0xFF, dynamicSharedBytes);
    block.body = [&] { kernel(args); };
    try {
      runBlock(block, random);
    } catch (const KernelError&) {
      stacks().clear();  // half-run fibers left their frames marked on them
      throw;
    }
  }
}

// A launch that does not run here but where launcher() sends it.
struct Launch {
  void* kernel;
  dim3 grid, size;
  size_t dynamicSharedBytes;
  void* args;  // may be changed
  size_t argsBytes;
  std::function<void()> emulate;  // runs it here after all, with `args` as they are by then
};
// None, unless the program sets one: native/test/device runs the tests on a GPU.
inline std::function<void(const Launch&)>& launcher() {
  static std::function<void(const Launch&)> set;
  return set;
}

// kernel<<<grid, size, dynamicSharedBytes>>>(args)
template <class Args>
void launch(void (*kernel)(Args), dim3 grid, dim3 size, size_t dynamicSharedBytes, Args args) {
  const auto here = [&] { emulate(kernel, grid, size, dynamicSharedBytes, args); };
  if (!launcher()) return here();
  launcher()(
      {reinterpret_cast<void*>(kernel), grid, size, dynamicSharedBytes, &args, sizeof(Args), here});
}

// A shared array of the block, made when its first thread comes by; all bits set is a NaN.
template <class T>
T* sharedArray(const void* key, size_t count) {
  std::unique_ptr<char[]>& bytes = currentBlock()->sharedArrays[key];
  if (!bytes) {
    bytes = std::make_unique_for_overwrite<char[]>(count * sizeof(T));
    std::memset(bytes.get(), 0xFF, count * sizeof(T));
  }
  return reinterpret_cast<T*>(bytes.get());
}

template <class T>
T exchange(uint32_t mask, T value, unsigned source, const std::source_location& where) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  Thread& me = *currentBlock()->running;
  me.mask = mask;
  me.source = source;
  me.given = 0;
  std::memcpy(&me.given, &value, sizeof(T));
  wait(State::kAtWarpOperation, where);
  T out;
  std::memcpy(&out, &me.received, sizeof(T));
  return out;
}

inline uint32_t vote(uint32_t mask, bool value, const std::source_location& where) {
  Thread& me = *currentBlock()->running;
  me.mask = mask;
  me.given = value;
  wait(State::kAtWarpOperation, where);
  return me.votes;
}

inline unsigned lane() { return linearThread() % 32; }

}  // namespace emu

#define threadIdx (emu::currentBlock()->running->index)
#define blockIdx (emu::currentBlock()->index)
#define blockDim (emu::currentBlock()->size)
#define gridDim (emu::currentBlock()->grid)

#define ACOER_EMU_HERE std::source_location where = std::source_location::current()

inline void __syncthreads(ACOER_EMU_HERE) { emu::wait(emu::State::kAtBlockBarrier, where); }
inline void __syncwarp(uint32_t mask = ~0u, ACOER_EMU_HERE) { emu::vote(mask, false, where); }
inline void __threadfence() {}

template <class T>
T __shfl_sync(uint32_t mask, T value, int source, ACOER_EMU_HERE) {
  return emu::exchange(mask, value, static_cast<unsigned>(source) % 32, where);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int flip, ACOER_EMU_HERE) {
  return emu::exchange(mask, value, emu::lane() ^ static_cast<unsigned>(flip), where);
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned distance, ACOER_EMU_HERE) {
  const unsigned source = emu::lane() + distance;
  return emu::exchange(mask, value, source < 32 ? source : emu::lane(), where);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned distance, ACOER_EMU_HERE) {
  const unsigned lane = emu::lane();
  return emu::exchange(mask, value, lane >= distance ? lane - distance : lane, where);
}
inline uint32_t __ballot_sync(uint32_t mask, int value, ACOER_EMU_HERE) {
  return emu::vote(mask, value != 0, where);
}
inline int __any_sync(uint32_t mask, int value, ACOER_EMU_HERE) {
  return emu::vote(mask, value != 0, where) != 0;
}
inline int __all_sync(uint32_t mask, int value, ACOER_EMU_HERE) {
  return emu::vote(mask, value == 0, where) == 0;
}
inline int __popc(uint32_t bits) { return __builtin_popcount(bits); }
inline int __ffs(uint32_t bits) { return __builtin_ffs(static_cast<int>(bits)); }

// As the device computes it: the product with log2(e) is rounded, which costs digits at large x.
inline float __expf(float x) { return std::exp2(x * 1.4426950408889634f); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
using std::isfinite;
// A product that is never contracted into a fused multiply-add.
inline float __fmul_rn(float a, float b) { return a * b; }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline uint32_t atomicAdd(uint32_t* to, uint32_t value) {
  const uint32_t before = *to;
  *to += value;
  return before;
}

#undef ACOER_EMU_HERE
