#include "device_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>

#include "base/error.h"

namespace acoer::check {
namespace {

constexpr size_t kGuard = 256;  // on both sides; keeps the alignment that libtorch relies on
constexpr uint8_t kGuardByte = 0xA5, kUnwritten = 0xFF;  // a NaN in every floating type

struct Block {
  size_t bytes;
  uint64_t number;
};

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, Block> live;  // by the address of their data
  std::unordered_set<uint64_t> numbers;
  uint64_t made = 0;
  std::string damage;  // what was noticed when a block was freed
};
Blocks& blocks() {
  static auto* all = new Blocks;  // tensors may be freed at exit
  return *all;
}

bool isWhole(const uint8_t* guard) {
  return std::all_of(guard, guard + kGuard, [](uint8_t byte) { return byte == kGuardByte; });
}

std::string damageOf(uintptr_t data, const Block& block) {
  const auto* begin = reinterpret_cast<const uint8_t*>(data);
  const bool before = !isWhole(begin - kGuard), behind = !isWhole(begin + block.bytes);
  if (!before && !behind) return "";
  std::string text = before ? "written before" : "written behind";
  text += " a block of device memory of this many bytes: ";
  return text += std::to_string(block.bytes);
}

void release(void* data) {
  if (data == nullptr) return;
  Blocks& all = blocks();
  auto* begin = static_cast<uint8_t*>(data);
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.live.find(reinterpret_cast<uintptr_t>(data));
    const Block block = found->second;
    const std::string damage = damageOf(found->first, block);
    if (all.damage.empty()) all.damage = damage;
    all.numbers.erase(block.number);
    all.live.erase(found);
    std::memset(begin, kUnwritten, block.bytes);
  }
  c10::free_cpu(begin - kGuard);
}

class GuardingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::kCPU};
    // Sizes that no machine has: let libtorch refuse them.
    if (bytes > SIZE_MAX / 4) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    auto* begin = static_cast<uint8_t*>(c10::alloc_cpu(bytes + 2 * kGuard));
    uint8_t* data = begin + kGuard;
    std::memset(begin, kGuardByte, kGuard);
    std::memset(data, kUnwritten, bytes);
    std::memset(data + bytes, kGuardByte, kGuard);
    Blocks& all = blocks();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const uint64_t number = ++all.made;
    all.live[reinterpret_cast<uintptr_t>(data)] = {bytes, number};
    all.numbers.insert(number);
    return {data, data, &release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

c10::Allocator* previous = nullptr;
constexpr uint8_t kHighest = 255;

}  // namespace

DeviceMemory::DeviceMemory() {
  static auto* allocator = new GuardingAllocator;
  previous = c10::GetAllocator(c10::kCPU);
  blocks().damage.clear();
  c10::SetCPUAllocator(allocator, kHighest);
}

DeviceMemory::~DeviceMemory() { c10::SetCPUAllocator(previous, kHighest); }

void DeviceMemory::checkGuards() const {
  Blocks& all = blocks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::string damage = all.damage;
  for (const auto& [data, block] : all.live) {
    if (damage.empty()) damage = damageOf(data, block);
  }
  if (!damage.empty()) fail(ErrorCode::kInternal, damage);
}

uint64_t memoryBlockOf(const void* address) {
  Blocks& all = blocks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto place = reinterpret_cast<uintptr_t>(address);
  auto found = all.live.upper_bound(place);
  if (found == all.live.begin()) return 0;
  --found;
  return place < found->first + found->second.bytes ? found->second.number : 0;
}

bool memoryBlockLives(uint64_t number) {
  Blocks& all = blocks();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.numbers.contains(number);
}

}  // namespace acoer::check
