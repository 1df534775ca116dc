// acoer-check [--list] [--exact] [--device NAME] [--threads N] [FILTER...]: runs the tests whose
// names contain one of the filters, with --exact are one of them, or all tests without a filter.
// Exit code 0: all passed; 1: some failed; 2: bad usage.
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "base/device.h"
#include "check.h"
#include "test_hooks.h"

namespace acoer::check {

namespace {

struct Test {
  const char* name;
  void (*body)();
};

std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

c10::Device& device() {
  static c10::Device chosen = c10::kCPU;
  return chosen;
}

Around& around() {
  static Around chosen = [](const std::string&, void (*body)()) { body(); };
  return chosen;
}

bool runTest(const Test& test) {
  const auto start = std::chrono::steady_clock::now();
  std::string problem;
  try {
    around()(test.name, test.body);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const double elapsedMs =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::printf("%s %s (%.0f ms)%s%s\n", problem.empty() ? "ok  " : "FAIL", test.name, elapsedMs,
              problem.empty() ? "" : ": ", problem.c_str());
  std::fflush(stdout);
  return problem.empty();
}

bool selected(const std::string& name, const std::vector<std::string>& filters, bool exact) {
  for (const auto& filter : filters) {
    if (exact ? name == filter : name.find(filter) != std::string::npos) return true;
  }
  return filters.empty();
}

int run(int argc, char** argv) {
  std::vector<std::string> filters;
  bool list = false, exact = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--list") {
      list = true;
    } else if (argument == "--exact") {
      exact = true;
    } else if (argument == "--device" && i + 1 < argc) {
      device() = resolveDevice(argv[++i]);
      computeOn(device());
    } else if (argument == "--threads" && i + 1 < argc) {
      at::set_num_threads(std::max(1, std::atoi(argv[++i])));
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "unknown option %s\n", argument.c_str());
      return 2;
    } else {
      filters.push_back(argument);
    }
  }
  int failed = 0, ran = 0;
  for (const Test& test : tests()) {
    if (!selected(test.name, filters, exact)) continue;
    ++ran;
    if (list) {
      std::puts(test.name);
    } else {
      failed += runTest(test) ? 0 : 1;
    }
  }
  if (!list) std::printf("%d of %d tests passed\n", ran - failed, ran);
  if (ran == 0) {
    std::fprintf(stderr, "no test matches\n");
    return 2;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

c10::Device checkDevice() { return device(); }

Registration::Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }

AroundTests::AroundTests(Around chosen) { around() = chosen; }

void runTestNamed(const std::string& name) {
  for (const Test& test : tests()) {
    if (name == test.name) return test.body();
  }
  fail(ErrorCode::kInternal, "there is no test " + name);
}

void failCheck(const char* file, int line, const std::string& what) {
  fail(ErrorCode::kInternal,
       std::string(file) + ":" + std::to_string(line) + ": check failed: " + what);
}

void checkAtMost(double value, double bound, const char* text, const char* file, int line) {
  if (!(value <= bound)) {
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, " (%.6g against %.6g)", value, bound);
    failCheck(file, line, text + std::string(numbers));
  }
}

void checkThrows(const std::function<void()>& body, ErrorCode code, const std::string& part,
                 const char* file, int line) {
  try {
    body();
  } catch (const EngineError& error) {
    if (error.code() == code && std::string(error.what()).find(part) != std::string::npos) return;
    failCheck(file, line,
              std::string("threw ") + errorCodeName(error.code()) + " \"" + error.what() +
                  "\" instead of " + errorCodeName(code) + " with \"" + part + "\"");
  }
  failCheck(file, line, std::string("nothing was thrown instead of ") + errorCodeName(code));
}

}  // namespace acoer::check

int main(int argc, char** argv) {
  try {
    return acoer::check::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
