#include "failure.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>

#include "error.h"

namespace acoer {
namespace {

Failure failure(ErrorCode code, std::string message) {
  return {errorCodeName(code), std::move(message)};
}

// libtorch's CPU allocator reports exhaustion as a plain c10::Error; its text is the only mark.
bool isAllocationFailure(std::string_view message) {
  return message.find("can't allocate memory") != std::string_view::npos ||
         message.find("Storage size calculation overflowed") != std::string_view::npos;
}

}  // namespace

Failure currentFailure() {
  try {
    throw;
  } catch (const EngineError& error) {
    return failure(error.code(), error.what());
  } catch (const c10::OutOfMemoryError& error) {
    return failure(ErrorCode::kOutOfMemory, error.what_without_backtrace());
  } catch (const c10::AcceleratorError& error) {
    return failure(ErrorCode::kDevice, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return failure(isAllocationFailure(message) ? ErrorCode::kOutOfMemory : ErrorCode::kInternal,
                   message);
  } catch (const std::bad_alloc&) {
    return failure(ErrorCode::kOutOfMemory, "the machine has not enough memory for this call");
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInternal, error.what());
  } catch (...) {
    return failure(ErrorCode::kInternal, "native code threw something that is not an exception");
  }
}

}  // namespace acoer
