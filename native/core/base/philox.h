// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): noise as a
// pure function of a key and a counter, so that no state and no batch can change a draw.
#pragma once

#include <array>
#include <cstdint>

namespace acoer {

using PhiloxBlock = std::array<uint32_t, 4>;

inline PhiloxBlock philox(uint64_t key, uint64_t counterLow, uint64_t counterHigh) {
  PhiloxBlock block{static_cast<uint32_t>(counterLow), static_cast<uint32_t>(counterLow >> 32),
                    static_cast<uint32_t>(counterHigh), static_cast<uint32_t>(counterHigh >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * block[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * block[2];
    block = {
        static_cast<uint32_t>(product1 >> 32) ^ block[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ block[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return block;
}

// 24 bits of one word, in [0, 1): exact in fp32.
inline double uniform24(uint32_t word) { return static_cast<double>(word >> 8) * 0x1p-24; }

// The sampler's number for the token at `position` of `sample`: 52 bits, in the middle of their
// intervals in (0, 1), so that a token without weight is never drawn.
inline double samplerUniform(uint64_t seed, uint64_t sample, uint64_t position) {
  const PhiloxBlock block = philox(seed, position, sample);
  const uint64_t bits = (uint64_t{block[1]} << 32 | block[0]) >> 12;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

}  // namespace acoer
