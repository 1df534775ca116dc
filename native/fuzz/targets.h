// What the fuzzers call: one function per kind of table (see Input in input.h). Each returns when
// the reader took the input or refused it with an EngineError, and throws when the reader broke a
// promise; the engines and acoer-check report that as a failure.
#pragma once

#include <array>
#include <string_view>

namespace acoer::fuzz {

// Every tensor of the table is read.
void fuzzTensors(std::string_view input);
// The weights of a model of the input's spec.
void fuzzModel(std::string_view input);
// The values of the input's LoRA on a small fixed model.
void fuzzAdapter(std::string_view input);
// What a policy on that model or its optimiser is restored from.
void fuzzRestore(std::string_view input);

struct Target {
  const char* name;  // of its folder of inputs
  void (*run)(std::string_view input);
};
constexpr std::array<Target, 4> kTargets{{{"tensors", fuzzTensors},
                                          {"model", fuzzModel},
                                          {"adapter", fuzzAdapter},
                                          {"restore", fuzzRestore}}};

}  // namespace acoer::fuzz
