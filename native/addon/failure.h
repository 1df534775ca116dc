// Translates any C++ exception into the code and the message of a JavaScript error.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"

namespace acoer {

struct Failure {
  std::string code;  // one of ErrorCodeName in src/engine/binding.ts
  std::string message;
  std::optional<Place> place{};
};

// Describes the exception being handled; call it only inside a catch block.
Failure currentFailure();

}  // namespace acoer
