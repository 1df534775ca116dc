// A head as the lanes of a warp hold it, its norm and its rotary embedding.
#pragma once

#include "reduce.cuh"
#include "storage.cuh"

namespace acoer::cuda {

template <class T>
__device__ __forceinline__ float2 loadPair(const T* from) {
  return {toFloat(from[0]), toFloat(from[1])};
}
template <>
__device__ __forceinline__ float2 loadPair(const float* from) {
  return *reinterpret_cast<const float2*>(from);
}
template <>
__device__ __forceinline__ float2 loadPair(const Bf16* from) {
  const uint32_t raw = *reinterpret_cast<const uint32_t*>(from);
  return {__uint_as_float(raw << 16), __uint_as_float(raw & 0xFFFF0000u)};
}
template <class T>
__device__ __forceinline__ void storePair(T* to, float2 pair) {
  to[0] = fromFloat<T>(pair.x);
  to[1] = fromFloat<T>(pair.y);
}

// x cos + turned sin, each product and the sum rounded to T as applyRope in rope.cpp rounds them.
template <class T>
__device__ __forceinline__ float turn(float x, float turned, float cos, float sin) {
  return rounded<T>(x * cos) + rounded<T>(turned * sin);
}

// What a lane holds of a head: two neighbours of each half, because rotary embedding pairs element
// i of the lower half with element i of the upper.
struct HeadPart {
  float2 low, high;
};

template <class T>
__device__ __forceinline__ HeadPart loadPart(const T* from, int half) {
  return {loadPair(from), loadPair(from + half)};
}
template <class T>
__device__ __forceinline__ void storePart(T* to, int half, const HeadPart& part) {
  storePair(to, part.low);
  storePair(to + half, part.high);
}

template <class T>
__device__ __forceinline__ HeadPart roundedTo(const HeadPart& x) {
  return {{rounded<T>(x.low.x), rounded<T>(x.low.y)}, {rounded<T>(x.high.x), rounded<T>(x.high.y)}};
}

// The head times `scale` and its weight; the pointer is to the lane's first element.
template <class T>
__device__ __forceinline__ HeadPart weighted(HeadPart x, float scale, const T* weight, int half) {
  const HeadPart w = loadPart(weight, half);
  x.low.x = rounded<T>(rounded<T>(x.low.x * scale) * w.low.x);
  x.low.y = rounded<T>(rounded<T>(x.low.y * scale) * w.low.y);
  x.high.x = rounded<T>(rounded<T>(x.high.x * scale) * w.high.x);
  x.high.y = rounded<T>(rounded<T>(x.high.y * scale) * w.high.y);
  return x;
}

// The head turned by its angles; the pointers are to those of the lane's first element.
template <class T>
__device__ __forceinline__ HeadPart turned(const HeadPart& x, const T* cos, const T* sin,
                                           int half) {
  const HeadPart c = loadPart(cos, half), s = loadPart(sin, half);
  return {{turn<T>(x.low.x, -x.high.x, c.low.x, s.low.x),
           turn<T>(x.low.y, -x.high.y, c.low.y, s.low.y)},
          {turn<T>(x.high.x, x.low.x, c.high.x, s.high.x),
           turn<T>(x.high.y, x.low.y, c.high.y, s.high.y)}};
}

__device__ __forceinline__ float squaresOf(const HeadPart& x) {
  return x.low.x * x.low.x + x.low.y * x.low.y + x.high.x * x.high.x + x.high.y * x.high.y;
}

}  // namespace acoer::cuda
