// What the fuzzers call: one function per kind of file. Each returns when the reader took the input
// or refused it with an EngineError, and throws when the reader broke a promise; the engines and
// acoer-check report that as a failure.
#pragma once

#include <array>
#include <string_view>

namespace acoer::fuzz {

// Any JSON text, read as a file.
void fuzzJson(std::string_view input);
// One safetensors file: header, layout, and every tensor read.
void fuzzSafetensors(std::string_view input);
// A model directory: config.json and model.safetensors, or config.json,
// model.safetensors.index.json and two shards (see sections() in input.h).
void fuzzModel(std::string_view input);
// An adapter directory for a small fixed model: adapter_config.json, adapter_model.safetensors.
void fuzzAdapter(std::string_view input);
// A safetensors file that a policy or its optimiser is restored from.
void fuzzRestore(std::string_view input);

struct Target {
  const char* name;  // of its folder of inputs
  void (*run)(std::string_view input);
};
constexpr std::array<Target, 5> kTargets{{{"json", fuzzJson},
                                          {"safetensors", fuzzSafetensors},
                                          {"model", fuzzModel},
                                          {"adapter", fuzzAdapter},
                                          {"restore", fuzzRestore}}};

}  // namespace acoer::fuzz
