// Fibers on x86-64: functions that can be left in the middle and gone on with later, each on a
// stack of its own. AddressSanitizer is told of every change of stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the callee-saved registers and changes stacks: tens of times faster than swapcontext, which
// makes a system call.
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

constexpr size_t kStackBytes = 128 << 10;

// A place where execution can go on: a fiber's, or the caller's that started it.
struct Context {
  void* sp = nullptr;
  const void* stack = nullptr;
  size_t stackBytes = 0;
};

// Goes on at `to`; returns when something switches back to `from`.
inline void switchContext(Context& from, const Context& to) {
#ifdef __SANITIZE_ADDRESS__
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to.stack, to.stackBytes);
#endif
  acoerEmuSwitch(&from.sp, to.sp);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// The first thing a fiber does: `from` is the context that started it.
inline void arriveOnFiber(Context& from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &from.stack, &from.stackBytes);
#else
  (void)from;
#endif
}

// `entry` must never return: it ends by switching away for good.
inline Context makeFiber(char* stack, void (*entry)()) {
  const auto top = reinterpret_cast<uintptr_t>(stack + kStackBytes) & ~uintptr_t{15};
  auto* sp = reinterpret_cast<void**>(top);
  *--sp = nullptr;  // a called function finds its stack 8 bytes off a multiple of 16
  *--sp = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
  return {sp, stack, kStackBytes};
}

}  // namespace emu
