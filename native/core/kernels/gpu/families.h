// The families of our CUDA kernels. A family is used or left to libtorch's operations as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace acoer {

enum class KernelFamily {
  kDecode,     // norm, rotate, attention, swiglu, sampler, advance
  kInt8Cache,  // rotate and attention over keys and values in int8
  kGraphs,     // steps of decoding that are recorded once and replayed
  kTraining,   // norms, head norms, swiglu, log-probs, and their backwards
  kAdamW,
  kDropout,
  kQuantised,  // products of quantised weights
};
constexpr std::array kKernelFamilies{KernelFamily::kDecode,   KernelFamily::kInt8Cache,
                                     KernelFamily::kGraphs,   KernelFamily::kTraining,
                                     KernelFamily::kAdamW,    KernelFamily::kDropout,
                                     KernelFamily::kQuantised};

constexpr const char* kFamilyNames[] = {"decode", "int8_cache", "graphs",   "training",
                                        "adamw",  "dropout",    "quantised"};
constexpr const char* familyName(KernelFamily family) {
  return kFamilyNames[static_cast<size_t>(family)];
}

// Why a family is left to libtorch's operations, a sentence; empty: it is used.
class KernelFaults {
 public:
  std::string& operator[](KernelFamily family) { return sentences_[static_cast<size_t>(family)]; }
  const std::string& operator[](KernelFamily family) const {
    return sentences_[static_cast<size_t>(family)];
  }

 private:
  std::array<std::string, kKernelFamilies.size()> sentences_;
};

}  // namespace acoer
