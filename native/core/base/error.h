// The core's exception type. The addon turns `code` into the `code` of a JavaScript error.
#pragma once

#include <c10/util/StringUtil.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace acoer {

enum class ErrorCode {
  kBadArgument,  // a value from the caller is not allowed
  kBadShape,     // a tensor in a file or an argument has the wrong shape
  kBadFile,      // a file is missing, damaged or not of the expected kind
  kOutOfMemory,
  kNotFinite,
  kDisposed,
  kCancelled,
  kDevice,    // the device is not available or failed
  kInternal,  // a bug: anything else libtorch or the standard library threw
};

// The name that JavaScript sees, e.g. "BAD_SHAPE".
const char* errorCodeName(ErrorCode code);

// The token at which something went wrong: its request, the sample within the request, and its
// index among the sample's new tokens. They become properties of the JavaScript error.
struct Place {
  int64_t request = 0;
  int64_t sample = 0;
  int64_t token = 0;
};

class EngineError : public std::runtime_error {
 public:
  EngineError(ErrorCode code, const std::string& message, std::optional<Place> place = std::nullopt)
      : std::runtime_error(message), code_(code), place_(place) {}
  ErrorCode code() const { return code_; }
  const std::optional<Place>& place() const { return place_; }

 private:
  ErrorCode code_;
  std::optional<Place> place_;
};

// The message is the parts, texts and whole numbers, one behind the other.
template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw EngineError(code, c10::str(parts...));
}

// Throws kBadArgument, "NAME must be RULE, not VALUE", unless `holds`.
void require(bool holds, const std::string& name, const std::string& rule, double value);

}  // namespace acoer
