// Any C++ exception as the code and the sentence JavaScript gets.
#pragma once

#include <optional>
#include <string>

#include "error.h"

namespace acoer {

struct Failure {
  std::string code;  // a name of ErrorCodeName in src/engine/binding.ts
  std::string message;
  std::optional<Place> place{};
};

// Describes the exception being handled; call it only inside a catch block.
Failure currentFailure();

}  // namespace acoer
