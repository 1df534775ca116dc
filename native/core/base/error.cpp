#include "base/error.h"

#include <cstdio>

namespace acoer {

const char* errorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kBadArgument:
      return "BAD_ARGUMENT";
    case ErrorCode::kBadShape:
      return "BAD_SHAPE";
    case ErrorCode::kBadFile:
      return "BAD_FILE";
    case ErrorCode::kOutOfMemory:
      return "OUT_OF_MEMORY";
    case ErrorCode::kNotFinite:
      return "NOT_FINITE";
    case ErrorCode::kDisposed:
      return "DISPOSED";
    case ErrorCode::kCancelled:
      return "CANCELLED";
    case ErrorCode::kDevice:
      return "DEVICE";
    case ErrorCode::kInternal:
      return "INTERNAL";
  }
  return "INTERNAL";
}

void fail(ErrorCode code, const std::string& message, std::optional<Place> place) {
  throw EngineError(code, message, place);
}

void require(bool holds, const std::string& name, const std::string& rule, double value) {
  if (holds) return;
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  fail(ErrorCode::kBadArgument, name + " must be " + rule + ", not " + text);
}

}  // namespace acoer
