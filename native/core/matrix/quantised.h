// Weights in 4 or 8 bits, quantised and dequantised as bitsandbytes 0.50 does it on a CPU, to the
// bit.
//
// nf4 (https://arxiv.org/abs/2305.14314): 64 adjacent weights of a row are a block. A weight is one
// of 16 numbers between -1 and 1, times the largest magnitude of its block. Those magnitudes are
// quantised once more: less their mean they are one of 256 numbers between -1 and 1, times the
// largest magnitude of 256 of them. A weight takes 4.127 bits.
//
// int8: a weight is a whole number of 127ths of the largest magnitude of its row.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cpu/quantised.h"

namespace acoer {

enum class Quantization { kNone, kNf4, kInt8 };
// As settings and kernels spell it.
constexpr const char* quantizationName(Quantization kind) {
  return kind == Quantization::kNf4 ? "nf4" : "int8";
}

constexpr int64_t kNf4Block = kernels::kNf4Block;  // weights that share a scale
constexpr int64_t kNf4Group = kernels::kNf4Group;  // scales that share a magnitude

// A matrix W [O, I] of one or more parts, one below the other: each is a tensor of a file and is
// quantised on its own.
struct Quantised {
  Quantization kind = Quantization::kNone;
  // nf4: uint8 [O, I / 2], the even columns in the high halves. int8: int8 [O, I].
  at::Tensor codes;
  // nf4: uint8 [O, I / 64], the place of each block's magnitude in dynamicMap().
  // int8: float [O], the largest magnitude of each row.
  at::Tensor scales;
  // nf4: float [G], the largest magnitude of 256 scales. They are counted from the part's first
  // block on, row after row; a part's last group may be shorter. Those of the parts follow each
  // other.
  at::Tensor groups;
  // nf4: where each part begins, and the mean of its magnitudes.
  std::vector<kernels::Nf4Part> parts;

  int64_t outputs() const { return codes.size(0); }                                        // O
  int64_t inputs() const { return codes.size(1) * (kind == Quantization::kNf4 ? 2 : 1); }  // I
  int64_t bytes() const;
  Quantised to(at::Device device) const;
};

// The 16 numbers of nf4 and the 256 of its scales, in rising order.
const std::array<float, 16>& nf4Table();
const std::array<float, 256>& dynamicMap();

// Of parts with so many rows; uninitialised, on a CPU. Throws kBadArgument if the columns of nf4
// are no whole blocks.
Quantised allocateQuantised(Quantization kind, const std::vector<int64_t>& partRows,
                            int64_t inputs);
// Fills part `index` from its weights, on a CPU. Whether all of them are finite; otherwise the part
// is of no use.
bool quantisePart(Quantised& quantised, size_t index, const at::Tensor& part_OI);

// Rows [first, first + rows) in fp32, or rounded to bf16; fp64 holds what fp32 does.
at::Tensor dequantisedRows(const Quantised& quantised, int64_t first, int64_t rows,
                           at::ScalarType type);
// The same in fp32 by tensor operations, on any device.
at::Tensor dequantisedByTensorOperations(const Quantised& quantised, int64_t first, int64_t rows);
// What the CPU kernels read. Valid as long as `quantised` is.
kernels::QuantisedWeight weightOf(const Quantised& quantised);

}  // namespace acoer
