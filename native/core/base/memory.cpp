#include "base/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <limits>
#include <mutex>
#include <new>
#include <string_view>

#include "base/device.h"
#include "base/error.h"

namespace acoer {
namespace {

// Tensors up to this size are never refused: scalars and index lists of operations in progress.
constexpr int64_t kNeverRefused = 4096;

// libtorch's CPU allocator and CUDA's libraries report exhaustion as a plain c10::Error, which only
// its text gives away.
bool isAllocationFailure(std::string_view message) {
  for (const std::string_view mark :
       {"can't allocate memory", "Storage size calculation overflowed", "ALLOC_FAILED"}) {
    if (message.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

// cudaErrorMemoryAllocation: memory that CUDA itself wanted, outside libtorch's allocator.
constexpr int32_t kCudaOutOfMemory = 2;

std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

}  // namespace

class MemoryAccount {
 public:
  explicit MemoryAccount(int64_t limitBytes) : limit_(limitBytes) {}

  void take(int64_t bytes) {
    const int64_t used = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (used > limit_ && bytes > kNeverRefused) {
      give(bytes);
      fail(ErrorCode::kOutOfMemory, "out of memory: a tensor of ", megabytes(bytes),
           " does not fit; ", megabytes(used - bytes), " are in use and memoryLimitBytes is ",
           megabytes(limit_));
    }
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (used > peak && !peak_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
    }
  }
  void give(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  MemoryUse use() const { return {used_, peak_}; }
  int64_t freeBytes() const { return std::max<int64_t>(0, limit_ - used_); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
};

namespace {

thread_local std::shared_ptr<MemoryAccount> currentAccount;

// Lies before the data. It shares the account because a tensor may be freed after its engine.
struct Header {
  int64_t bytes;
  std::shared_ptr<MemoryAccount> account;
};
// libtorch's kernels rely on this alignment of the data (c10/core/alignment.h).
constexpr size_t kHeaderBytes = 64;
static_assert(sizeof(Header) <= kHeaderBytes);

// libtorch's own allocation of CPU memory, plus a header that says whose it is.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::kCPU};
    // Sizes that no machine has: let libtorch refuse them.
    if (bytes > std::numeric_limits<size_t>::max() / 4) {
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    const auto size = static_cast<int64_t>(bytes);
    const std::shared_ptr<MemoryAccount> account = currentAccount;
    if (account) account->take(size);
    char* base = nullptr;
    try {
      base = static_cast<char*>(c10::alloc_cpu(bytes + kHeaderBytes));
    } catch (...) {
      if (account) account->give(size);
      throw;
    }
    new (base) Header{size, account};
    char* data = base + kHeaderBytes;
    return {data, data, &release, c10::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void release(void* data) {
    if (data == nullptr) return;
    char* base = static_cast<char*>(data) - kHeaderBytes;
    auto* header = reinterpret_cast<Header*>(base);
    if (header->account) header->account->give(header->bytes);
    header->~Header();
    c10::free_cpu(base);
  }
};

// For the whole process and for good: a storage that grows asks the allocator that made it.
void installCountingAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    static CountingAllocator allocator;
    c10::SetCPUAllocator(&allocator, 255);
  });
}

c10::CachingDeviceAllocator::DeviceStats deviceStats(c10::Device device) {
  return c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
}

constexpr auto kAllPools = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

bool allocatorReady(c10::Device device) {
  return c10::getDeviceAllocator(device.type())->initialized();
}

// The limit of each CUDA device, 0 for none. Like the allocator's own, it applies to the whole
// process.
std::atomic<int64_t>& deviceLimit(c10::Device device) {
  static std::array<std::atomic<int64_t>, std::numeric_limits<c10::DeviceIndex>::max() + 1> limits;
  return limits[static_cast<size_t>(device.index())];
}

// Memory that libtorch's allocator caches counts as free: it gives cached blocks back if a request
// does not fit into one.
int64_t availableOnDevice(c10::Device device) {
  int64_t allocated = 0, reserved = 0;
  if (allocatorReady(device)) {
    const auto stats = deviceStats(device);
    allocated = stats.allocated_bytes[kAllPools].current;
    reserved = stats.reserved_bytes[kAllPools].current;
  }
  int64_t available = deviceFacts(device).freeBytes + reserved - allocated;
  const int64_t limit = deviceLimit(device);
  if (limit > 0) available = std::min(available, limit - allocated);
  return std::max<int64_t>(0, available);
}

}  // namespace

void prepareMemoryLimit(c10::Device device, int64_t limitBytes) {
  if (limitBytes == 0) return;
  if (device.is_cpu()) return installCountingAllocator();
  limitDeviceMemory(device, limitBytes);
  deviceLimit(device) = limitBytes;
}

EngineMemory::EngineMemory(c10::Device device, int64_t limitBytes) : device_(device) {
  if (limitBytes == 0 || !device.is_cpu()) return;
  account_ = std::make_shared<MemoryAccount>(limitBytes);
  currentAccount = account_;
}

EngineMemory::~EngineMemory() { currentAccount.reset(); }

std::optional<MemoryUse> EngineMemory::use() const {
  if (account_) return account_->use();
  if (device_.is_cpu()) return std::nullopt;
  if (!allocatorReady(device_)) return MemoryUse{};
  const auto stats = deviceStats(device_).allocated_bytes[kAllPools];
  return MemoryUse{stats.current, stats.peak};
}

int64_t availableBytes(c10::Device device) {
  if (!device.is_cpu()) return availableOnDevice(device);
  const int64_t free = deviceFacts(device).freeBytes;
  return currentAccount ? std::min(free, currentAccount->freeBytes()) : free;
}

bool memoryIsCounted() { return currentAccount != nullptr; }

bool handlingOutOfMemory() {
  try {
    throw;
  } catch (const EngineError& error) {
    return error.code() == ErrorCode::kOutOfMemory;
  } catch (const c10::OutOfMemoryError&) {
    return true;
  } catch (const c10::AcceleratorError& error) {
    return error.get_error_code() == kCudaOutOfMemory;
  } catch (const c10::Error& error) {
    return isAllocationFailure(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

void releaseFreedMemory(c10::Device device) {
  if (device.is_cpu()) {
    malloc_trim(0);
  } else if (allocatorReady(device)) {
    c10::getDeviceAllocator(device.type())->emptyCache();
  }
}

}  // namespace acoer
