// libFuzzer's entry points for the target ACOER_FUZZ_TARGET.
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "input.h"
#include "targets.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t maxSize);

namespace {

using acoer::fuzz::kSeparator;

struct Span {
  size_t begin = 0, end = 0;
};

uint64_t lengthAt(const uint8_t* data) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | data[i];
  return length;
}

// The JSON header of the first safetensors file in the input; empty without one.
Span headerOf(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (size_t from = 0; from + 8 < size;) {
    const uint64_t length = lengthAt(data + from);
    if (data[from + 8] == '{' && length <= size - from - 8) {
      return {from + 8, from + 8 + static_cast<size_t>(length)};
    }
    const size_t next = text.find(kSeparator, from);
    if (next == std::string_view::npos) break;
    from = next + kSeparator.size();
  }
  return {};
}

}  // namespace

// Half of the mutations change the JSON header of a safetensors file and keep its length field
// true: byte mutations alone almost always end at "its header would be ... bytes".
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t maxSize,
                                          unsigned int seed) {
  std::minstd_rand random(seed);
  const Span header = headerOf(data, size);
  if (header.begin == 0 || random() % 2 == 0) return LLVMFuzzerMutate(data, size, maxSize);
  const size_t oldLength = header.end - header.begin;
  std::string text(reinterpret_cast<char*>(data) + header.begin, oldLength);
  const size_t room = oldLength + (maxSize - size);
  text.resize(room);
  const size_t length = LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), oldLength, room);
  std::memmove(data + header.begin + length, data + header.end, size - header.end);
  std::memcpy(data + header.begin, text.data(), length);
  for (size_t i = 0; i < 8; ++i) {
    data[header.begin - 8 + i] = static_cast<uint8_t>(uint64_t{length} >> (8 * i));
  }
  return size - oldLength + length;
}

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  at::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  acoer::fuzz::ACOER_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
