// Host memory that shows wrong accesses as a card's would not: while a DeviceMemory exists,
// libtorch's CPU tensors are allocated in blocks that are known by their addresses, hold NaN until
// they are written and again once they are freed, and lie between guards.
#pragma once

#include <cstdint>

namespace acoer::check {

class DeviceMemory {
 public:
  DeviceMemory();
  ~DeviceMemory();  // later tensors are allocated as before; the blocks that live on are still
                    // known
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Fails with INTERNAL if something was written beside a block that lives, or that was freed while
  // this object existed.
  void checkGuards() const;
};

// The number of the live block that holds `address`; 0: none. Numbers are not used again.
uint64_t memoryBlockOf(const void* address);
bool memoryBlockLives(uint64_t number);

}  // namespace acoer::check
