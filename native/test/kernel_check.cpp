// The self-check of a card: right kernels pass, each family finds its planted bugs and falls back
// alone. Numbers of bugs: ACOER_PLANTED in native/cuda/kernels.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/device.h"
#include "check.h"
#include "device_models.h"
#include "emulated_gpu.h"
#include "generate_support.h"
#include "selfcheck/selfcheck.h"

namespace acoer::check {
namespace {

CheckedKernels checkedKernels(const ModelSpec& spec, at::ScalarType dtype,
                              const GpuKernels& kernels,
                              Quantization quantization = Quantization::kInt8) {
  return {.kernels = kernels,
          .spec = spec,
          .device = checkDevice(),
          .dtype = dtype,
          .quantization = quantization};
}

// The emulated kernels over a runtime that `change` has changed.
GpuKernels kernelsOver(const std::function<void(CudaRuntime&)>& change) {
  CudaRuntime runtime = emulatedKernels().runtime();
  change(runtime);
  return {ownFolder() / "kernels.fatbin", runtime};
}

void expectRight(const ModelSpec& spec, at::ScalarType dtype,
                 Quantization quantization = Quantization::kNf4) {
  const auto figures = checkKernels(checkedKernels(spec, dtype, *kernelsToCheck(), quantization));
  const KernelFaults faults = faultsIn(figures);
  std::array<bool, kKernelFamilies.size()> seen{};
  for (const KernelFigure& figure : figures) {
    seen[static_cast<size_t>(figure.family)] = true;
    if (figure.fault.empty()) continue;
    fail(ErrorCode::kInternal, figure.kernel + " " + figure.fault);
  }
  for (const KernelFamily family : kKernelFamilies) {
    const bool checked = family != KernelFamily::kInt8Cache || dtype == at::kBFloat16;
    ACOER_CHECK(seen[static_cast<size_t>(family)] == checked);
  }
}

// What a wrong kernel does to the process it runs in, such as memory without an end or a loop, is
// its process's alone.
enum class Outcome { kRight, kFound, kElsewhere, kDied };

void limitThisProcess() {
  constexpr rlim_t kSeconds = 20, kMoreBytes = rlim_t{4} << 30;
  const rlimit cpu{kSeconds, kSeconds};
  setrlimit(RLIMIT_CPU, &cpu);
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMoreBytes;
  const rlimit memory{bytes, bytes};
  setrlimit(RLIMIT_AS, &memory);
  const rlimit core{0, 0};
  setrlimit(RLIMIT_CORE, &core);
  alarm(120);
}

Outcome outcomeIn(const CheckedKernels& checked, KernelFamily family) {
  const KernelFaults faults = faultsIn(checkFamily(checked, family));
  for (const KernelFamily other : kKernelFamilies) {
    if (other != family && !faults[other].empty()) return Outcome::kElsewhere;
  }
  return faults[family].empty() ? Outcome::kRight : Outcome::kFound;
}

// With bug `bug` of the kernels; 0: none.
Outcome outcomeOf(const CheckedKernels& checked, KernelFamily family, int bug) {
  const pid_t child = fork();
  if (child == 0) {
    limitThisProcess();
    at::set_num_threads(1);  // the other threads of the pool are not in this process
    const PlantedBug planted(bug);
    try {
      _exit(static_cast<int>(outcomeIn(checked, family)));
    } catch (...) {
      _exit(static_cast<int>(Outcome::kElsewhere));
    }
  }
  int status = 0;
  ACOER_CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : Outcome::kDied;
}

// No size is a whole number of what a block takes, so that reaching beyond an end shows.
ModelSpec oddSpec() {
  ModelSpec spec = smallSpec();
  spec.vocabSize = 1301;
  spec.hiddenSize = 200;
  spec.intermediateSize = 392;
  return spec;
}

void expectFound(at::ScalarType dtype, KernelFamily family, const std::vector<int>& bugs,
                 Quantization quantization = Quantization::kInt8) {
  if (!checkDevice().is_cpu()) return;  // bugs can be planted in emulated kernels only
  // nf4 takes whole blocks.
  const ModelSpec spec = quantization == Quantization::kNf4 ? smallSpec() : oddSpec();
  const CheckedKernels checked = checkedKernels(spec, dtype, emulatedKernels(), quantization);
  ACOER_CHECK(outcomeOf(checked, family, 0) == Outcome::kRight);
  std::string missed;
  for (const int bug : bugs) {
    const Outcome outcome = outcomeOf(checked, family, bug);
    if (outcome != Outcome::kFound && outcome != Outcome::kDied)
      missed += " " + std::to_string(bug);
  }
  if (!missed.empty()) fail(ErrorCode::kInternal, "bugs that were not found:", missed);
}

}  // namespace

ACOER_TEST(device_kernel_check_passes_right_kernels) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    expectRight(smallSpec(), dtype);
    expectRight(smallSpec(), dtype, Quantization::kInt8);
  }
  ModelSpec wide = qwen2Spec();
  wide.headDim = 128;
  wide.numHeads = 12;
  expectRight(wide, at::kBFloat16);
  ModelSpec three = yarnSpec();
  three.headDim = 96;
  expectRight(three, at::kBFloat16);
}

// A model that the decoder's kernels do not fit: what training uses of them is checked all the
// same.
ACOER_TEST(device_kernel_check_of_other_heads) {
  ModelSpec spec = smallSpec();
  spec.headDim = 80;
  const auto figures = checkKernels(checkedKernels(spec, at::kFloat, *kernelsToCheck()));
  bool trains = false;
  for (const KernelFigure& figure : figures) {
    ACOER_CHECK(figure.fault.empty() && figure.family != KernelFamily::kDecode &&
                figure.family != KernelFamily::kGraphs);
    trains = trains || figure.family == KernelFamily::kTraining;
  }
  ACOER_CHECK(trains);
}

ACOER_TEST(kernel_check_finds_bugs_of_decoding) {
  // norm, swiglu, rotate, attention, combine, lora, sampler, advance. Not 45, which reads what is
  // not used, nor 57, which needs another F, nor 103, which takes sums that are next to never met.
  const std::vector<int> bugs{11,  12,  20,  21,  30,  31,  32,  33,  34,  43,  44,
                              46,  47,  48,  53,  55,  56,  58,  59,  100, 101, 102,
                              107, 108, 111, 160, 161, 162, 163, 242, 243};
  expectFound(at::kFloat, KernelFamily::kDecode, bugs);
  expectFound(at::kBFloat16, KernelFamily::kDecode, {12, 21, 31, 32, 43, 44, 47, 48, 53, 59});
}

ACOER_TEST(kernel_check_finds_bugs_of_a_cache_in_int8) {
  expectFound(at::kBFloat16, KernelFamily::kInt8Cache, {35, 36, 37, 39, 43, 44, 48, 49, 243});
}

ACOER_TEST(kernel_check_finds_bugs_of_training) {
  const std::vector<int> bugs{11,  12,  20,  21,  201, 202, 210, 211, 212,
                              213, 214, 220, 221, 230, 231, 232, 233};
  expectFound(at::kFloat, KernelFamily::kTraining, bugs);
  expectFound(at::kBFloat16, KernelFamily::kTraining, {12, 202, 213, 221});
}

ACOER_TEST(kernel_check_finds_bugs_of_the_optimiser) {
  expectFound(at::kBFloat16, KernelFamily::kAdamW, {10, 240, 241});
}

ACOER_TEST(kernel_check_finds_bugs_of_dropout) {
  expectFound(at::kBFloat16, KernelFamily::kDropout, {150, 151, 152});
}

// Not 68 and 69, which read what is not used, 67, which needs another number of rows, nor 64, whose
// weights are not rounded to bf16: that is within the bound. The emulator's tests find it.
ACOER_TEST(kernel_check_finds_bugs_of_quantised_products) {
  const auto find = [](at::ScalarType dtype, Quantization quantization,
                       const std::vector<int>& bugs) {
    expectFound(dtype, KernelFamily::kQuantised, bugs, quantization);
  };
  find(at::kFloat, Quantization::kNf4, {60, 61, 62, 63, 66, 70, 72});
  find(at::kBFloat16, Quantization::kNf4, {61, 62, 63, 70});
  find(at::kFloat, Quantization::kInt8, {65, 66, 70, 71, 72});
}

// A model that is not quantised starts none of them.
ACOER_TEST(kernel_check_without_quantised_products) {
  const CheckedKernels checked =
      checkedKernels(smallSpec(), at::kFloat, *kernelsToCheck(), Quantization::kNone);
  ACOER_CHECK(checkFamily(checked, KernelFamily::kQuantised).empty());
}

ACOER_TEST(kernel_check_finds_a_graph_that_does_nothing) {
  if (!checkDevice().is_cpu()) return;
  const GpuKernels idle = kernelsOver(
      [](CudaRuntime& runtime) { runtime.graphLaunch = [](void*, void*) { return 0; }; });
  const auto figures = checkKernels(checkedKernels(smallSpec(), at::kFloat, idle));
  const KernelFaults faults = faultsIn(figures);
  for (const KernelFamily family : kKernelFamilies) {
    ACOER_CHECK(faults[family].empty() == (family != KernelFamily::kGraphs));
  }
  ACOER_CHECK(faults[KernelFamily::kGraphs].rfind("acoer's CUDA kernel graph differs", 0) == 0);
}

// A runtime without graphs is no fault: decoding says so itself.
ACOER_TEST(kernel_check_without_graphs) {
  if (!checkDevice().is_cpu()) return;
  const auto figures =
      checkKernels(checkedKernels(smallSpec(), at::kFloat, emulatedKernels(Graphs::kNone)));
  ACOER_CHECK(faultsIn(figures)[KernelFamily::kGraphs].empty());
}

// A kernel that does not start is a fault with the runtime's reason.
ACOER_TEST(kernel_check_takes_errors_for_faults) {
  if (!checkDevice().is_cpu()) return;
  const GpuKernels broken = kernelsOver([](CudaRuntime& runtime) {
    runtime.launchKernel = [](const void*, LaunchSize, LaunchSize, void**, size_t, void*) {
      return 719;  // cudaErrorLaunchFailure
    };
  });
  const CheckedKernels checked = checkedKernels(smallSpec(), at::kFloat, broken);
  const KernelFaults faults = faultsIn(checkFamily(checked, KernelFamily::kTraining));
  ACOER_CHECK(faults[KernelFamily::kTraining].find("norm_fp32 failed: ") != std::string::npos);
}

// Every family falls back alone, and decoding says why.
ACOER_TEST(device_kernel_faults_fall_back_by_family) {
  const auto model = randomModel(smallSpec(), checkDevice(), at::kFloat, 3);
  model->kernels = kernelsToCheck();
  const std::vector<GenerateRequest> requests{makeRequest({1, 2, 3}, 2, 9)};
  model->kernelFaults[KernelFamily::kGraphs] = "wrong graphs";
  const GraphCounts before = graphCounts();
  ACOER_CHECK(collect(*model, requests).stats.fallback == "wrong graphs");
  ACOER_CHECK(graphCounts().recorded == before.recorded);
  model->kernelFaults[KernelFamily::kDecode] = "wrong attention";
  const Generated got = collect(*model, requests);
  ACOER_CHECK(got.stats.fallback == "wrong attention");
  ACOER_CHECK_LE(gapToScore(*model, requests, got).logprob, 1e-4);
  for (const KernelFamily family : kKernelFamilies) {
    const bool used = model->kernelsOf(family) != nullptr;
    ACOER_CHECK(used == (family != KernelFamily::kGraphs && family != KernelFamily::kDecode));
  }
}

// Training with a family left out uses libtorch's operations, which a bug in its kernels shows.
ACOER_TEST(kernel_faults_leave_out_wrong_kernels) {
  if (!checkDevice().is_cpu()) return;
  const auto model = randomModel(smallSpec(), checkDevice(), at::kFloat, 3);
  const auto batch = randomSequences(model->spec, {5, 3}, {9, 12}, 4);
  const Cancel never;
  const ScoreResult want = score(*model, nullptr, batch, 1, never);
  model->kernels = kernelsToCheck();
  const PlantedBug planted(21);  // swiglu.cuh
  const auto gap = [&] {
    const ScoreResult got = score(*model, nullptr, batch, 1, never);
    double largest = 0;
    for (size_t i = 0; i < got.logprobs.size(); ++i) {
      largest = std::max(largest, std::abs(got.logprobs[i] - want.logprobs[i]));
    }
    return largest;
  };
  ACOER_CHECK_LE(1e-3, gap());
  model->kernelFaults[KernelFamily::kTraining] = "wrong swiglu";
  ACOER_CHECK_LE(gap(), 1e-5);
}

}  // namespace acoer::check
