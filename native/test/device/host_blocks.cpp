// Replaces the program's operator new and delete, which the standard lets a program do, so that the
// emulator's tests run unchanged: they keep what a kernel reads and writes in ordinary vectors.
#include "host_blocks.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <new>

namespace acoer::check {
namespace {

// The map must not allocate through the operators that fill it.
template <class T>
struct PlainAllocator {
  using value_type = T;
  PlainAllocator() = default;
  template <class U>
  explicit PlainAllocator(const PlainAllocator<U>&) {}
  T* allocate(size_t count) {
    void* memory = std::malloc(count * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const PlainAllocator&) const { return true; }
};
using Blocks =
    std::map<uintptr_t, size_t, std::less<>, PlainAllocator<std::pair<const uintptr_t, size_t>>>;

thread_local bool noting = false;
thread_local bool anyNoted = false;  // since noteAllocations()
Blocks& blocks() {
  thread_local Blocks all;
  return all;
}

}  // namespace

void noteAllocations(bool on) {
  noting = false;
  blocks().clear();
  noting = anyNoted = on;
}

AllocationsNotNoted::AllocationsNotNoted() : before_(noting) { noting = false; }
AllocationsNotNoted::~AllocationsNotNoted() { noting = before_; }

HostBlock blockOf(uintptr_t address) {
  auto next = blocks().upper_bound(address);
  if (next == blocks().begin()) return {};
  const auto& [begin, bytes] = *--next;
  if (address - begin >= bytes) return {};
  return {reinterpret_cast<char*>(begin), bytes};
}

static void* allocate(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (noting) blocks()[reinterpret_cast<uintptr_t>(memory)] = bytes;
  return memory;
}

static void release(void* memory) noexcept {
  // Other threads free memory of libtorch's all the time, and have no blocks of their own.
  if (anyNoted) blocks().erase(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
}

}  // namespace acoer::check

void* operator new(size_t bytes) { return acoer::check::allocate(bytes); }
void* operator new[](size_t bytes) { return acoer::check::allocate(bytes); }
void operator delete(void* memory) noexcept { acoer::check::release(memory); }
void operator delete[](void* memory) noexcept { acoer::check::release(memory); }
void operator delete(void* memory, size_t) noexcept { acoer::check::release(memory); }
void operator delete[](void* memory, size_t) noexcept { acoer::check::release(memory); }
