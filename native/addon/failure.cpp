#include "failure.h"

#include <c10/util/Exception.h>

#include <new>

#include "base/memory.h"
#include "kernels/gpu/kernels.h"

namespace acoer {
namespace {

Failure failure(ErrorCode code, std::string message) {
  return {errorCodeName(code), std::move(message)};
}

// Behind its first line libtorch explains how to debug its own kernels.
std::string describeAcceleratorError(const c10::AcceleratorError& error) {
  const std::string text = error.what_without_backtrace();
  const std::string advice = afterFatalGpuError(error.get_error_code());
  return advice.empty() ? text : text.substr(0, text.find('\n')) + advice;
}

}  // namespace

Failure currentFailure() {
  const bool memory = handlingOutOfMemory();
  const auto describe = [memory](ErrorCode otherwise, const std::string& message) {
    return memory ? failure(ErrorCode::kOutOfMemory, "out of memory: " + message)
                  : failure(otherwise, message);
  };
  try {
    throw;
  } catch (const EngineError& error) {
    return {errorCodeName(error.code()), error.what(), error.place()};
  } catch (const c10::AcceleratorError& error) {
    return describe(ErrorCode::kDevice, describeAcceleratorError(error));
  } catch (const c10::Error& error) {
    return describe(ErrorCode::kInternal, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return describe(ErrorCode::kOutOfMemory,
                    "the machine does not have enough memory for this call");
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInternal, error.what());
  } catch (...) {
    return failure(ErrorCode::kInternal, "native code threw something that is not an exception");
  }
}

}  // namespace acoer
