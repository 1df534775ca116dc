// acoer-check-kernels [--list] [--kernels] [--device NAME] [--exact] [FILTER...]: the tests that
// the emulator runs (native/test/emu), with the kernels of the fatbin on a GPU instead: the same
// cases, the same bounds against float64. A filter is a part of a test's name, with --exact the
// whole of it; without one every kernel of the table must have run. The last line but one names the
// kernels that were launched. --list prints the tests, --kernels the table. Exit code: 0 all
// passed, 1 some failed, 2 bad usage or no such device. On a CPU the emulator runs the kernels on
// copies.
#include <chrono>
#include <cstdio>

#include "../emu/check.h"
#include "base/device.h"
#include "host_blocks.h"
#include "kernels/gpu/kernels.h"
#include "launch.h"

namespace {

struct Test {
  const char* name;
  void (*body)();
};
std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

bool report(const std::string& name, double seconds, const std::string& problem) {
  std::printf("%s %s (%.1f s)%s%s\n", problem.empty() ? "ok  " : "FAIL", name.c_str(), seconds,
              problem.empty() ? "" : ": ", problem.c_str());
  std::fflush(stdout);
  return problem.empty();
}

bool runTest(const Test& test) {
  const auto start = std::chrono::steady_clock::now();
  std::string problem;
  acoer::check::noteAllocations(true);
  try {
    test.body();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  acoer::check::noteAllocations(false);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return report(test.name, elapsed.count(), problem);
}

struct Options {
  std::string device = "cuda";
  bool list = false, kernels = false, exact = false;
  std::vector<std::string> filters;

  bool selects(const std::string& name) const {
    for (const std::string& filter : filters) {
      if (exact ? name == filter : name.find(filter) != std::string::npos) return true;
    }
    return filters.empty();
  }
};

bool everyKernelRan() {
  std::string missing;
  for (const acoer::cuda::KernelInfo& kernel : acoer::cuda::kKernels) {
    if (!acoer::check::launchedKernels().contains(kernel.name)) {
      missing += std::string(missing.empty() ? "" : ", ") + kernel.name;
    }
  }
  return report("every_kernel_ran", 0, missing.empty() ? "" : "not launched: " + missing);
}

void printLaunched() {
  std::printf("launched:");
  for (const std::string& name : acoer::check::launchedKernels()) std::printf(" %s", name.c_str());
  std::printf("\n");
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--device" && i + 1 < argc) {
      options.device = argv[++i];
    } else if (argument == "--list") {
      options.list = true;
    } else if (argument == "--kernels") {
      options.kernels = true;
    } else if (argument == "--exact") {
      options.exact = true;
    } else if (argument.rfind("--", 0) == 0) {
      std::fprintf(stderr, "unknown option %s\n", argument.c_str());
      return false;
    } else {
      options.filters.push_back(argument);
    }
  }
  return true;
}

int run(const Options& options) {
  if (options.list) {
    for (const Test& test : tests()) {
      if (options.selects(test.name)) std::puts(test.name);
    }
  }
  if (options.kernels) {
    for (const acoer::cuda::KernelInfo& kernel : acoer::cuda::kKernels) std::puts(kernel.name);
  }
  if (options.list || options.kernels) return 0;
  const c10::Device device = acoer::resolveDevice(options.device);
  acoer::computeOn(device);
  acoer::check::launchOn(device);
  int ran = 0, failed = 0;
  const auto count = [&](bool passed) {
    ++ran;
    failed += passed ? 0 : 1;
  };
  for (const Test& test : tests()) {
    if (options.selects(test.name)) count(runTest(test));
  }
  if (options.filters.empty()) count(everyKernelRan());
  printLaunched();
  std::printf("%d of %d tests passed\n", ran - failed, ran);
  if (ran == 0) return 2;
  return failed == 0 ? 0 : 1;
}

}  // namespace

emu::Registration::Registration(const char* name, void (*body)()) {
  tests().push_back({name, body});
}

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) return 2;
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
