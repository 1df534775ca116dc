// Any C++ exception as the code and the sentence JavaScript gets.
#pragma once

#include <string>

namespace acoer {

struct Failure {
  std::string code;  // a name of ErrorCodeName in src/engine/binding.ts
  std::string message;
};

// Describes the exception being handled; call it only inside a catch block.
Failure currentFailure();

}  // namespace acoer
