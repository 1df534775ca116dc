// How tensors of bf16 and fp32 are read and written; all arithmetic is fp32.
#pragma once

#include "port.cuh"

namespace acoer::cuda {

using Bf16 = __nv_bfloat16;

// Elements one thread reads or writes at a time: 16 bytes of bf16, twice 16 of fp32. Rows that are
// read so must begin at a multiple of it and have a multiple of it.
constexpr int kPack = 8;

__device__ __forceinline__ float toFloat(float x) { return x; }
__device__ __forceinline__ float toFloat(Bf16 x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T fromFloat(float x);
template <>
__device__ __forceinline__ float fromFloat<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ Bf16 fromFloat<Bf16>(float x) {
  return __float2bfloat16(x);
}

// x as a tensor of type T would hold it.
template <class T>
__device__ __forceinline__ float rounded(float x) {
  return toFloat(fromFloat<T>(x));
}

// kPack neighbours as they lie in memory, so that several loads can be under way before one is
// used.
template <class T>
struct Pack;

template <>
struct Pack<Bf16> {
  uint4 raw;
  __device__ __forceinline__ static Pack load(const Bf16* from) {
    return {*reinterpret_cast<const uint4*>(from)};
  }
  // A bf16 number is the upper half of an fp32 number.
  __device__ __forceinline__ void unpack(float (&to)[kPack]) const {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
  }
};

template <>
struct Pack<float> {
  float4 low, high;
  __device__ __forceinline__ static Pack load(const float* from) {
    const float4* vectors = reinterpret_cast<const float4*>(from);
    return {vectors[0], vectors[1]};
  }
  __device__ __forceinline__ void unpack(float (&to)[kPack]) const {
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
  }
};

// The least scale of codes in int8, that of a head of zeros: its reciprocal is finite.
constexpr float kLeastScale = 1e-30f;

// x / scale to the nearest integer, ties to even, as a byte: the unit of such a sum is 1, and its
// mantissa ends with it.
__device__ __forceinline__ uint32_t codeOf(float x, float scale) {
  return __float_as_uint(x / scale + 12582912.0f) & 0xFFu;
}

// Codes of a cache in int8. A byte that ends the mantissa of 2^23 is that much more than 2^23.
template <>
struct Pack<int8_t> {
  uint2 raw;
  __device__ __forceinline__ static Pack load(const int8_t* from) {
    return {*reinterpret_cast<const uint2*>(from)};
  }
  __device__ __forceinline__ void unpack(float (&to)[kPack]) const {
    const uint32_t words[2] = {raw.x ^ 0x80808080u, raw.y ^ 0x80808080u};
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const uint32_t byte = words[i / 4] >> 8 * (i % 4) & 0xFFu;
      to[i] = __uint_as_float(0x4B000000u | byte) - 8388736.0f;
    }
  }
};

template <class T>
__device__ __forceinline__ void loadPack(const T* from, float (&to)[kPack]) {
  Pack<T>::load(from).unpack(to);
}

__device__ __forceinline__ void storePack(float* to, const float (&from)[kPack]) {
  float4* vectors = reinterpret_cast<float4*>(to);
  vectors[0] = float4{from[0], from[1], from[2], from[3]};
  vectors[1] = float4{from[4], from[5], from[6], from[7]};
}
__device__ __forceinline__ void storePack(Bf16* to, const float (&from)[kPack]) {
  union {
    uint4 vector;
    Bf16 elements[kPack];
  } pack;
#pragma unroll
  for (int i = 0; i < kPack; ++i) pack.elements[i] = fromFloat<Bf16>(from[i]);
  *reinterpret_cast<uint4*>(to) = pack.vector;
}

}  // namespace acoer::cuda
