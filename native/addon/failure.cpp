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

// libtorch's CPU allocator and CUDA's libraries report exhaustion as a plain c10::Error; its text is
// the only mark.
bool isAllocationFailure(std::string_view message) {
  for (const std::string_view mark :
       {"can't allocate memory", "Storage size calculation overflowed", "ALLOC_FAILED"}) {
    if (message.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

// cudaErrorMemoryAllocation: memory that CUDA itself wanted, outside libtorch's allocator.
constexpr int32_t kCudaOutOfMemory = 2;

Failure outOfMemory(const std::string& message) {
  return failure(ErrorCode::kOutOfMemory, "out of memory: " + message);
}

}  // namespace

Failure currentFailure() {
  try {
    throw;
  } catch (const EngineError& error) {
    return failure(error.code(), error.what());
  } catch (const c10::OutOfMemoryError& error) {
    return outOfMemory(error.what_without_backtrace());
  } catch (const c10::AcceleratorError& error) {
    const std::string message = error.what_without_backtrace();
    if (error.get_error_code() == kCudaOutOfMemory) return outOfMemory(message);
    return failure(ErrorCode::kDevice, message);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    if (isAllocationFailure(message)) return outOfMemory(message);
    return failure(ErrorCode::kInternal, message);
  } catch (const std::bad_alloc&) {
    return outOfMemory("the machine has not enough memory for this call");
  } catch (const std::exception& error) {
    return failure(ErrorCode::kInternal, error.what());
  } catch (...) {
    return failure(ErrorCode::kInternal, "native code threw something that is not an exception");
  }
}

}  // namespace acoer
