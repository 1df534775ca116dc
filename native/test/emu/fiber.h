// Fibers on x86-64 and 64-bit ARM: functions that can be left in the middle and gone on with later,
// each on a stack of its own. AddressSanitizer is told of every change of stack.
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
#ifdef __aarch64__
asm(R"(
.text
.weak acoerEmuSwitch
.type acoerEmuSwitch,@function
acoerEmuSwitch:
  stp x19, x20, [sp, #-160]!
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x19, x20, [sp], #160
  ret
)");
#else
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
#endif

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

// `entry` must never return: it ends by switching away for good. Fibers of different numbers begin
// in different lines of a page: stacks are whole pages apart, so all of their tops would share a
// few lines of the processor's cache.
inline Context makeFiber(char* stack, unsigned number, void (*entry)()) {
  constexpr size_t kLine = 64, kLinesOfPage = 64;
  const size_t used = kStackBytes - kLine * (number % kLinesOfPage);
  const auto top = reinterpret_cast<uintptr_t>(stack + used) & ~uintptr_t{15};
  auto* sp = reinterpret_cast<void**>(top);
#ifdef __aarch64__
  constexpr int kSaved = 20, kReturn = 11;  // registers that the switch saves, and which is x30
#else
  *--sp = nullptr;  // a called function finds its stack 8 bytes off a multiple of 16
  constexpr int kSaved = 7, kReturn = 6;
#endif
  sp -= kSaved;
  for (int i = 0; i < kSaved; ++i) sp[i] = nullptr;
  sp[kReturn] = reinterpret_cast<void*>(entry);
  return {sp, stack, kStackBytes};
}

}  // namespace emu
