#include "base/error.h"

#include <cstdio>
#include <iterator>

namespace acoer {

const char* errorCodeName(ErrorCode code) {
  // In the order of ErrorCode.
  constexpr const char* kNames[] = {"BAD_ARGUMENT",  "BAD_SHAPE",  "BAD_FILE",
                                    "OUT_OF_MEMORY", "NOT_FINITE", "DISPOSED",
                                    "CANCELLED",     "DEVICE",     "INTERNAL"};
  static_assert(std::size(kNames) == static_cast<size_t>(ErrorCode::kInternal) + 1);
  return kNames[static_cast<size_t>(code)];
}

void require(bool holds, const std::string& name, const std::string& rule, double value) {
  if (holds) return;
  char text[32];
  std::snprintf(text, sizeof(text), "%.15g", value);
  fail(ErrorCode::kBadArgument, name, " must be ", rule, ", not ", text);
}

}  // namespace acoer
