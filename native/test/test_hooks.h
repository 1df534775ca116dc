// What acoer-check lets a test file change about how tests run.
#pragma once

#include <string>

namespace acoer::check {

// Runs the body of a test as acoer-check would. Fails with INTERNAL if there is none of that name.
void runTestNamed(const std::string& name);

// From now on `around` runs each test: it calls `body`.
using Around = void (*)(const std::string& name, void (*body)());
struct AroundTests {
  explicit AroundTests(Around around);
};

}  // namespace acoer::check
