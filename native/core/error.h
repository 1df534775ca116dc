// The one exception of the core. The addon turns `code` into the `code` of a JavaScript error.
#pragma once

#include <stdexcept>
#include <string>

namespace acoer {

enum class ErrorCode {
  kBadArgument,  // the caller's values make no sense together
  kBadShape,     // a tensor in a file or an argument has the wrong shape
  kBadFile,      // a file is missing, torn, or not what its name says
  kOutOfMemory,
  kNotFinite,
  kDisposed,
  kCancelled,
  kDevice,    // the device asked for is not there or failed
  kInternal,  // a bug: anything else libtorch or the standard library threw
};

// The spelling JavaScript sees, e.g. "BAD_SHAPE".
const char* errorCodeName(ErrorCode code);

class EngineError : public std::runtime_error {
 public:
  EngineError(ErrorCode code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

[[noreturn]] void fail(ErrorCode code, const std::string& message);

}  // namespace acoer
