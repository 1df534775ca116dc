// Philox4x32-10 and the sampler's number, bit for bit those of native/core/base/philox.h.
#pragma once

#include "port.cuh"

namespace acoer::cuda {

struct PhiloxWords {
  uint32_t word[4];
};

__device__ __forceinline__ PhiloxWords philox(uint64_t key, uint64_t counterLow,
                                              uint64_t counterHigh) {
  uint32_t a = static_cast<uint32_t>(counterLow), b = static_cast<uint32_t>(counterLow >> 32);
  uint32_t c = static_cast<uint32_t>(counterHigh), d = static_cast<uint32_t>(counterHigh >> 32);
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * a;
    const uint64_t product1 = uint64_t{0xCD9E8D57} * c;
    a = static_cast<uint32_t>(product1 >> 32) ^ b ^ key0;
    b = static_cast<uint32_t>(product1);
    c = static_cast<uint32_t>(product0 >> 32) ^ d ^ key1;
    d = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return {{a, b, c, d}};
}

// The sampler's number u in (0, 1) as the integer u * 2^53: 52 random bits and a one behind them.
__device__ __forceinline__ uint64_t samplerMantissa(uint64_t seed, uint64_t sample,
                                                    uint64_t position) {
  const PhiloxWords words = philox(seed, position, sample);
  return (uint64_t{words.word[1]} << 32 | words.word[0]) >> 12 << 1 | 1;
}

}  // namespace acoer::cuda
