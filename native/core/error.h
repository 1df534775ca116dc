// The one exception of the core. The addon turns `code` into the `code` of a JavaScript error.
#pragma once

#include <cstdint>
#include <optional>
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

// The token at which something went wrong, for callers that look it up: its request, the sample of
// the request, and its number among the sample's new tokens. The addon makes properties of the
// JavaScript error of them.
struct Place {
  int64_t request = 0;
  int64_t sample = 0;
  int64_t token = 0;
};

class EngineError : public std::runtime_error {
 public:
  EngineError(ErrorCode code, const std::string& message, std::optional<Place> place)
      : std::runtime_error(message), code_(code), place_(place) {}
  ErrorCode code() const { return code_; }
  const std::optional<Place>& place() const { return place_; }

 private:
  ErrorCode code_;
  std::optional<Place> place_;
};

[[noreturn]] void fail(ErrorCode code, const std::string& message,
                       std::optional<Place> place = std::nullopt);

// Throws kBadArgument, "NAME must be RULE, not VALUE", unless `holds`.
void require(bool holds, const std::string& name, const std::string& rule, double value);

}  // namespace acoer
