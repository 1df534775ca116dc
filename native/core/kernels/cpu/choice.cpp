// Which set of kernels this machine runs.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "kernels/cpu/sets.h"

#ifdef ACOER_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace acoer::kernels {
namespace {

#ifdef ACOER_X86_64
bool hasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

#ifdef ACOER_AVX512_BF16
// Where Intel's processors have these, they have AMX, too, and without AMX their fp32 products are
// faster than those of pairs (measured: twice as fast on an Emerald Rapids).
bool hasFastPairs() { return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd"); }
#endif

#ifdef ACOER_AMX
// Linux gives a process the tiles' registers when it asks for them.
bool hasAmx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kBf16) == 0 || (edx & kTiles) == 0) return false;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}
#endif

#ifdef ACOER_AVX512_BF16
KernelSet withProducts(const char* name, const ProductKernels& products) {
  KernelSet set = avx512::kSet;
  set.name = name;
  set.bf16Products = true;
  set.products = products;
  return set;
}
#endif

std::vector<const KernelSet*> findSets() {
  std::vector<const KernelSet*> sets{&base::kSet};
#ifdef ACOER_X86_64
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) sets.push_back(&avx2::kSet);
  if (!hasAvx512()) return sets;
  sets.push_back(&avx512::kSet);
#endif
#ifdef ACOER_AVX512_BF16
  if (__builtin_cpu_supports("avx512bf16")) {
    static const KernelSet pairs = withProducts("avx512_bf16", avx512_bf16::kProducts);
    sets.insert(hasFastPairs() ? sets.end() : sets.end() - 1, &pairs);
  }
#endif
#ifdef ACOER_AMX
  if (hasAmx()) {
    static const KernelSet tiles = withProducts("amx", amx::kProducts);
    sets.push_back(&tiles);
  }
#endif
  return sets;
}

// The best set, or the one that ACOER_CPU_KERNELS names.
const KernelSet& chooseSet() {
  const std::vector<const KernelSet*> sets = usableSets();
  const char* asked = std::getenv("ACOER_CPU_KERNELS");
  if (asked == nullptr || *asked == '\0') return *sets.back();
  std::string names;
  for (const KernelSet* set : sets) {
    if (std::string(asked) == set->name) return *set;
    names += (names.empty() ? "" : ", ") + std::string(set->name);
  }
  fail(ErrorCode::kBadArgument, "ACOER_CPU_KERNELS is \"", std::string(asked).substr(0, 60),
       "\"; this machine has ", names);
}

const KernelSet& chosenSet() {
  static const KernelSet& set = chooseSet();
  return set;
}

}  // namespace

void checkKernelChoice() { chosenSet(); }

std::vector<const KernelSet*> usableSets() {
  static const std::vector<const KernelSet*> sets = findSets();
  return sets;
}

template <>
const RowKernels<float>& rowKernels<float>() {
  return chosenSet().rowsFloat;
}
template <>
const RowKernels<double>& rowKernels<double>() {
  return chosenSet().rowsDouble;
}
template <>
const RowKernels<Bf16>& rowKernels<Bf16>() {
  return chosenSet().rowsBf16;
}
template <>
const MathKernels<float>& mathKernels<float>() {
  return chosenSet().mathFloat;
}
template <>
const MathKernels<double>& mathKernels<double>() {
  return chosenSet().mathDouble;
}
const DequantiseKernels& dequantiseKernels() { return chosenSet().dequantise; }
const ProductKernels& productKernels() { return chosenSet().products; }

bool hasBf16Products() {
  const auto byInstructions = [](const KernelSet* set) { return set->bf16Products; };
  static const std::vector<const KernelSet*> sets = usableSets();
  return std::any_of(sets.begin(), sets.end(), byInstructions);
}

bool usesTiles() { return std::string_view(chosenSet().name) == "amx"; }

}  // namespace acoer::kernels
