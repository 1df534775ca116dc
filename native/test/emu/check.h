// The registry, the data and the comparisons of the tests that run the CUDA kernels emulated.
//
//   EMU_TEST(name) { forEachSchedule([] { ... compare ... }); }
//
// A test fails by an exception: a comparison outside its bound or an error of the emulator.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "cuda_emu.h"

namespace emu {

struct Registration {
  Registration(const char* name, void (*body)());
};

// Rounded to T, to the nearest.
template <class T>
T toStorage(double x) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(x);
  } else {
    return __float2bfloat16(static_cast<float>(x));
  }
}
inline double toDouble(float x) { return x; }
inline double toDouble(int8_t x) { return x; }
inline double toDouble(__nv_bfloat16 x) { return __bfloat162float(x); }

// Half the distance of neighbouring numbers, relative: what one rounding to T costs.
template <class T>
constexpr double kRounding = std::is_same_v<T, float> ? 0x1p-24 : 0x1p-8;

template <class T>
bool sameBits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// What nobody wrote reads as NaN.
template <class T>
std::vector<T> unwritten(size_t count) {
  return std::vector<T>(count, toStorage<T>(std::numeric_limits<double>::quiet_NaN()));
}

// Other numbers under every schedule.
class Data {
 public:
  explicit Data(uint64_t seed) : random_(seed + (schedule() << 32)) {}
  double uniform() { return static_cast<double>(random_.next() >> 11) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * M_PI * uniform());
  }
  template <class T>
  std::vector<T> normals(size_t count, double mean = 0, double deviation = 1) {
    std::vector<T> values(count);
    for (T& value : values) value = toStorage<T>(mean + deviation * normal());
    return values;
  }
  // `count` different numbers below `bound`, in any order.
  std::vector<int32_t> distinct(int count, int bound) {
    std::vector<int32_t> all(static_cast<size_t>(bound));
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = all.size(); i > 1; --i) {
      std::swap(all[i - 1], all[random_.below(static_cast<unsigned>(i))]);
    }
    all.resize(static_cast<size_t>(count));
    return all;
  }

 private:
  Random random_;
};

// The same body under several orders of threads and blocks.
inline void forEachSchedule(const std::function<void()>& body, int count = 3) {
  for (int seed = 1; seed <= count; ++seed) {
    schedule() = static_cast<uint64_t>(seed);
    try {
      body();
    } catch (const std::exception& error) {
      throw std::runtime_error(std::string(error.what()) + " (schedule " + std::to_string(seed) +
                               ")");
    }
  }
}

[[noreturn]] inline void fail(const std::string& what) { throw std::runtime_error(what); }

// |found - exact| <= bound; a NaN fails.
inline void expectNear(double found, double exact, double bound, const std::string& what) {
  if (std::abs(found - exact) <= bound) return;
  char text[160];
  std::snprintf(text, sizeof text, ": %.9g instead of %.9g, off by %.2g times the bound of %.2g",
                found, exact, std::abs(found - exact) / bound, bound);
  fail(what + text);
}

template <class T>
void expectSame(const std::vector<T>& found, const std::vector<T>& expected,
                const std::string& what) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (!sameBits(found[i], expected[i])) {
      fail(what + " differs at element " + std::to_string(i) + ": " +
           std::to_string(toDouble(found[i])) + " instead of " +
           std::to_string(toDouble(expected[i])));
    }
  }
}

// Counts elements that differ from those of the same roundings over exact sums. Sums in another
// order now and then carry a value over the border between two neighbours, and no oftener.
class SameRoundings {
 public:
  template <class T>
  void add(T found, T expected) {
    ++total_;
    if (!sameBits(found, expected)) ++different_;
  }
  void expect(const std::string& what) const {
    if (different_ <= 2 + total_ / 100) return;
    fail(what + ": " + std::to_string(different_) + " of " + std::to_string(total_) +
         " elements are not those that the documented roundings give");
  }

 private:
  size_t total_ = 0, different_ = 0;
};

}  // namespace emu

#define EMU_TEST(name)                                                          \
  static void emuTest_##name();                                                 \
  static const ::emu::Registration emuRegistered_##name(#name, emuTest_##name); \
  static void emuTest_##name()
