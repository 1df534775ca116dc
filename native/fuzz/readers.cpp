// JSON and safetensors files on their own.
#include <ATen/ATen.h>

#include <cstring>

#include "input.h"
#include "json.h"
#include "safetensors.h"
#include "targets.h"

namespace acoer::fuzz {

namespace {

// As text that parses to the same value again.
std::string written(const Json& value) {
  if (const bool* flag = value.asBool()) return *flag ? "true" : "false";
  if (const int64_t* whole = value.asInt()) return std::to_string(*whole);
  if (const std::string* text = value.asString()) return jsonQuote(*text);
  std::string out;
  if (const Json::Array* items = value.asArray()) {
    for (const Json& item : *items) out += (out.empty() ? "" : ",") + written(item);
    return "[" + out + "]";
  }
  if (const Json::Object* members = value.asObject()) {
    for (const auto& [key, item] : *members) {
      out += (out.empty() ? "" : ",") + jsonQuote(key) + ":" + written(item);
    }
    return "{" + out + "}";
  }
  double number = 0;
  if (!value.number(number)) return "null";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.17e", number);
  return digits;
}

// Every tensor is read into the type of its own that the engine would use.
void readTensor(const SafetensorsFile& file, const std::string& name, const SafetensorsEntry& entry,
                std::string_view input) {
  const Cancel never;
  const bool isInteger = entry.dtypeName == "I64";
  const auto dtype = isInteger ? at::kLong : at::kFloat;
  // A file cannot justify a tensor of many more bytes than it has: 4-bit types become 32-bit ones.
  int64_t count = 1;
  for (const int64_t size : entry.shape) {
    if (size == 0) return;
    count *= size;
  }
  require(static_cast<uint64_t>(count) <= 2 * input.size(), "a tensor has bytes in the file");
  const at::Tensor out = at::empty(entry.shape, at::TensorOptions().dtype(dtype));
  if (!accepted([&] { file.read(name, out, never); })) return;
  if (isInteger || entry.dtypeName == "F32") {
    require(std::memcmp(out.data_ptr(), input.data() + entry.begin, out.nbytes()) == 0,
            "a tensor holds the bytes of the file");
  }
}

}  // namespace

void fuzzJson(std::string_view input) {
  const MemoryFile memory(input);
  Json value;
  if (!accepted([&] { value = readJsonFile(memory.path()); })) return;
  const std::string text = written(value);
  require(written(parseJson(text, "the text written")) == text, "JSON survives a round trip");
}

void fuzzSafetensors(std::string_view input) {
  const MemoryFile memory(input);
  accepted([&] {
    const SafetensorsFile file(memory.path());
    uint64_t bytes = 0;
    for (const auto& [name, entry] : file.entries()) {
      require(entry.begin <= entry.end && entry.end <= input.size(), "tensors lie in the file");
      bytes += entry.end - entry.begin;
      readTensor(file, name, entry, input);
    }
    require(bytes < input.size(), "tensors do not overlap");
  });
}

}  // namespace acoer::fuzz
