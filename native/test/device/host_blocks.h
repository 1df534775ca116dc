// Which memory a test has allocated: the arguments of a kernel are plain pointers, and to copy what
// they point to onto a GPU its size must be known.
#pragma once

#include <cstddef>
#include <cstdint>

namespace acoer::check {

struct HostBlock {
  char* begin = nullptr;
  size_t bytes = 0;
};

// Whether this thread's allocations are noted from now on. Starts with none noted.
void noteAllocations(bool on);

// Leaves out what is allocated while it lives: not memory of the test.
class AllocationsNotNoted {
 public:
  AllocationsNotNoted();
  ~AllocationsNotNoted();
  AllocationsNotNoted(const AllocationsNotNoted&) = delete;
  AllocationsNotNoted& operator=(const AllocationsNotNoted&) = delete;

 private:
  bool before_;
};

// The block allocated with `new` on this thread, while that was noted and not yet freed, that holds
// `address`; an empty one if there is none.
HostBlock blockOf(uintptr_t address);

}  // namespace acoer::check
