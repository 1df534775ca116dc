// The registry and the assertions of acoer-check, the test binary of the core.
//
//   ACOER_TEST(name) { ACOER_CHECK(cond); ACOER_CHECK_LE(value, bound); ... }
//
// A test fails at the first failed check, which ends it, or by any exception.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace acoer::check {

// The device named by --device, or the CPU. Tests named device_* and gpu_kernels_* run there.
c10::Device checkDevice();

struct Registration {
  Registration(const char* name, void (*body)());
};

[[noreturn]] void failCheck(const char* file, int line, const std::string& what);
// Fails unless value <= bound (a NaN fails too).
void checkAtMost(double value, double bound, const char* text, const char* file, int line);
// Fails unless `body` throws an EngineError with this code whose message contains `part`.
void checkThrows(const std::function<void()>& body, ErrorCode code, const std::string& part,
                 const char* file, int line);

}  // namespace acoer::check

#define ACOER_TEST(name)                                                                     \
  static void acoerTest_##name();                                                            \
  static const ::acoer::check::Registration acoerRegistered_##name(#name, acoerTest_##name); \
  static void acoerTest_##name()

#define ACOER_CHECK(condition) \
  ((condition) ? void() : ::acoer::check::failCheck(__FILE__, __LINE__, #condition))
#define ACOER_CHECK_LE(value, bound) \
  ::acoer::check::checkAtMost(value, bound, #value " <= " #bound, __FILE__, __LINE__)
#define ACOER_CHECK_THROWS(statement, code, part) \
  ::acoer::check::checkThrows([&] { statement; }, code, part, __FILE__, __LINE__)
