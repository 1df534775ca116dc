// Quantised weights (matrix/quantised.h) as the CPU kernels read them.
#pragma once

#include "kernels/cpu/kernels.h"

namespace acoer::kernels {

constexpr int64_t kNf4Block = 64, kNf4Group = 256;

// A part of a fused nf4 matrix.
struct Nf4Part {
  int64_t firstRow = 0, firstGroup = 0;
  float offset = 0;  // the mean of the magnitudes of its blocks
};

// W [O, I], row after row.
struct QuantisedWeight {
  bool nf4 = false;  // else int8
  int64_t inputs = 0;
  const uint8_t* codes = nullptr;  // of int8, too
  // nf4 only:
  const uint8_t* scales = nullptr;
  const float* groups = nullptr;
  const Nf4Part* parts = nullptr;
  int64_t partCount = 0;
  const float* table = nullptr;  // nf4Table()
  const float* map = nullptr;    // dynamicMap()
  // int8 only:
  const float* magnitudes = nullptr;
};

// Columns [first, first + count) of row `row` of W in T; `first` is a multiple of kNf4Block, and so
// is `count` in nf4.
template <class T>
using Dequantise = void (*)(const QuantisedWeight& w, int64_t row, int64_t first, int64_t count,
                            T* out);

struct DequantiseKernels {
  Dequantise<float> toFloat;
  Dequantise<Bf16> toBf16;
};
const DequantiseKernels& dequantiseKernels();

}  // namespace acoer::kernels
