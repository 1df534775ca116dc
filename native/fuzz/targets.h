// The functions that the fuzzers call, one per kind of table (see Input in input.h). Each returns
// if the reader accepts the input or rejects it with an EngineError, and throws if the reader
// breaks a promise; the engines and acoer-check report that as a failure.
#pragma once

#include <array>
#include <string_view>

namespace acoer::fuzz {

// Reads every tensor of the table.
void fuzzTensors(std::string_view input);
// Loads a model of the input's spec.
void fuzzModel(std::string_view input);
// Loads the input's LoRA on a small fixed model.
void fuzzAdapter(std::string_view input);
// Restores policies on that model and their optimisers.
void fuzzRestore(std::string_view input);

struct Target {
  const char* name;  // the name of its folder of inputs
  void (*run)(std::string_view input);
};
constexpr std::array<Target, 4> kTargets{{{"tensors", fuzzTensors},
                                          {"model", fuzzModel},
                                          {"adapter", fuzzAdapter},
                                          {"restore", fuzzRestore}}};

}  // namespace acoer::fuzz
