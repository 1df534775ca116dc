// emulated-kernels [--planted N] [FILTER...]: runs the tests whose names contain one of the filters
// (all without one), with planted bug N in the kernels. Exit 0: all passed; 1: some failed; 2: bad
// usage. AddressSanitizer ends the program with 1, too.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "check.h"

namespace emu {
namespace {

struct Test {
  const char* name;
  void (*body)();
};
std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

bool selected(const std::string& name, const std::vector<std::string>& filters) {
  for (const std::string& filter : filters) {
    if (name.find(filter) != std::string::npos) return true;
  }
  return filters.empty();
}

bool runTest(const Test& test) {
  const auto start = std::chrono::steady_clock::now();
  std::string problem;
  try {
    test.body();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::printf("%s %s (%.1f s)%s%s\n", problem.empty() ? "ok  " : "FAIL", test.name, elapsed.count(),
              problem.empty() ? "" : ": ", problem.c_str());
  std::fflush(stdout);
  return problem.empty();
}

int run(int argc, char** argv) {
  std::vector<std::string> filters;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--planted" && i + 1 < argc) {
      plantedBug() = std::atoi(argv[++i]);
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "unknown option %s\n", argument.c_str());
      return 2;
    } else {
      filters.push_back(argument);
    }
  }
  int ran = 0, failed = 0;
  for (const Test& test : tests()) {
    if (!selected(test.name, filters)) continue;
    ++ran;
    if (!runTest(test)) ++failed;
  }
  std::printf("%d of %d tests passed\n", ran - failed, ran);
  if (ran == 0) return 2;
  return failed == 0 ? 0 : 1;
}

}  // namespace

Registration::Registration(const char* name, void (*body)()) { tests().push_back({name, body}); }

}  // namespace emu

int main(int argc, char** argv) { return emu::run(argc, argv); }
