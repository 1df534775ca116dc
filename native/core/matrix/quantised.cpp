#include "matrix/quantised.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/dispatch.h"

#pragma GCC optimize("O3")

namespace acoer {
namespace {

using kernels::Bf16;

// A block or row of zeros is divided by this.
constexpr float kLeast = 1e-38f;
// Rows that are worth a thread of their own have so many numbers together.
constexpr int64_t kParallelNumbers = int64_t{1} << 15;

// Sums of libtorch depend on how many threads share them.
class OneThread {
 public:
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_ = at::get_num_threads();
};

std::array<float, 15> middlesOf(const std::array<float, 16>& table) {
  std::array<float, 15> middles{};
  for (size_t i = 0; i < middles.size(); ++i) middles[i] = (table[i] + table[i + 1]) / 2;
  return middles;
}

// bitsandbytes looks up where a scale lies among 65,536 numbers from -1 to 1, and has the code of
// each of these.
constexpr int64_t kPlaces = 65536;
const std::array<uint8_t, kPlaces>& codesOfPlaces() {
  static const std::array<uint8_t, kPlaces> codes = [] {
    std::array<uint8_t, kPlaces> made{};
    const std::array<float, 256>& map = dynamicMap();
    size_t code = 0;
    for (int64_t i = 0; i < kPlaces; ++i) {
      const float value = -1.0f + 2.0f * static_cast<float>(i) / static_cast<float>(kPlaces - 1);
      while (code < 255 && 0.5f * (map[code] + map[code + 1]) < value) ++code;
      made[static_cast<size_t>(i)] = static_cast<uint8_t>(code);
    }
    return made;
  }();
  return codes;
}

// The codes of up to kNf4Group scales less their mean, and their largest magnitude.
float quantiseGroup(const float* scales, float mean, int64_t count, uint8_t* codes) {
  std::array<float, kNf4Group> values{};
  float magnitude = 0;
  for (int64_t i = 0; i < count; ++i) {
    values[static_cast<size_t>(i)] = scales[i] - mean;
    magnitude = std::max(magnitude, std::abs(scales[i] - mean));
  }
  if (magnitude == 0) {
    std::fill_n(codes, count, uint8_t{0});
    return 0;
  }
  const float inverse = 1.0f / magnitude;
  for (int64_t i = 0; i < count; ++i) {
    const float value = std::clamp(values[static_cast<size_t>(i)] * inverse, -1.0f, 1.0f);
    const float place = (value + 1.0f) * 0.5f * static_cast<float>(kPlaces - 1) + 0.5f;
    // Not a number where a zero meets the inverse of a denormal magnitude.
    codes[i] = codesOfPlaces()[place > 0 ? static_cast<uint16_t>(place) : 0];
  }
  return magnitude;
}

// Non-negative floats are ordered as their bits are, infinity and NaN above all, and the largest of
// whole numbers is found in vectors.
float magnitudeOf(const float* x, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return std::bit_cast<float>(most);
}

bool areFinite(const at::Tensor& magnitudes) { return magnitudes.isfinite().all().item<bool>(); }

// A number in the middle of two codes takes the lower one.
void quantiseBlock(const float* x, float magnitude, const std::array<float, 15>& middles,
                   uint8_t* codes) {
  const float inverse = 1.0f / std::max(magnitude, kLeast);
  std::array<int32_t, kNf4Block> places{};
  for (size_t i = 0; i < kNf4Block; ++i) {
    const float value = x[i] * inverse;
    int32_t place = 0;
    for (const float middle : middles) place += value > middle ? 1 : 0;
    places[i] = place;
  }
  for (size_t i = 0; i < kNf4Block; i += 2) {
    codes[i / 2] = static_cast<uint8_t>(places[i] << 4 | places[i + 1]);
  }
}

// Calls visit(row, its numbers in fp32) for every row, on several threads.
template <class Visit>
void forEachRow(const at::Tensor& w_OI, const Visit& visit) {
  const int64_t inputs = w_OI.size(1);
  const int64_t grain = std::max<int64_t>(1, kParallelNumbers / std::max<int64_t>(1, inputs));
  at::parallel_for(0, w_OI.size(0), grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const at::Tensor wide_I = w_OI[row].to(at::kFloat).contiguous();
      visit(row, wide_I.const_data_ptr<float>());
    }
  });
}

bool quantiseNf4(Quantised& q, size_t index, const at::Tensor& w_OI) {
  static const std::array<float, 15> middles = middlesOf(nf4Table());
  kernels::Nf4Part& part = q.parts[index];
  const int64_t inputs = w_OI.size(1), blocks = inputs / kNf4Block;
  const at::Tensor magnitudes = at::empty({w_OI.size(0) * blocks}, at::kFloat);
  auto* const magnitude = magnitudes.data_ptr<float>();
  auto* const codes = q.codes.data_ptr<uint8_t>() + part.firstRow * inputs / 2;
  forEachRow(w_OI, [&](int64_t row, const float* x) {
    for (int64_t b = 0; b < blocks; ++b) {
      magnitude[row * blocks + b] = magnitudeOf(x + b * kNf4Block, kNf4Block);
      quantiseBlock(x + b * kNf4Block, magnitude[row * blocks + b], middles,
                    codes + (row * inputs + b * kNf4Block) / 2);
    }
  });
  if (!areFinite(magnitudes)) return false;
  const OneThread oneThread;
  part.offset = magnitudes.mean().item<float>();
  auto* const scales = q.scales.data_ptr<uint8_t>() + part.firstRow * blocks;
  auto* const groups = q.groups.data_ptr<float>() + part.firstGroup;
  for (int64_t first = 0; first < magnitudes.numel(); first += kNf4Group) {
    groups[first / kNf4Group] =
        quantiseGroup(magnitude + first, part.offset,
                      std::min(kNf4Group, magnitudes.numel() - first), scales + first);
  }
  return true;
}

bool quantiseInt8(const Quantised& q, size_t index, const at::Tensor& w_OI) {
  const int64_t firstRow = q.parts[index].firstRow, inputs = w_OI.size(1);
  auto* const codes = q.codes.data_ptr<int8_t>() + firstRow * inputs;
  auto* const scales = q.scales.data_ptr<float>() + firstRow;
  forEachRow(w_OI, [&](int64_t row, const float* x) {
    scales[row] = magnitudeOf(x, inputs);
    // In Python a number over a tensor is the tensor's reciprocal times the number.
    const float inverse = 1.0f / scales[row] * 127.0f;
    for (int64_t i = 0; i < inputs; ++i) {
      const float code = std::nearbyint(x[i] * inverse);
      // Of a row of zeros it is NaN.
      codes[row * inputs + i] = std::abs(code) <= 127 ? static_cast<int8_t>(code) : int8_t{0};
    }
  });
  return areFinite(q.scales.narrow(0, firstRow, w_OI.size(0)));
}

}  // namespace

const std::array<float, 16>& nf4Table() {
  static constexpr std::array<float, 16> kTable = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return kTable;
}

// Zero, one, and 2^i numbers of either sign in the i-th of seven decades: the middles of as many
// equal parts of [0.1, 1], times 10^(i - 6).
const std::array<float, 256>& dynamicMap() {
  static const std::array<float, 256> map = [] {
    std::array<float, 256> made{};
    size_t size = 0;
    for (int i = 0; i < 7; ++i) {
      const at::Tensor bounds = at::linspace(0.1, 1, (int64_t{1} << i) + 1, at::kFloat);
      const at::Tensor middles = (bounds.slice(0, 0, -1) + bounds.slice(0, 1)) / 2.0;
      // The power of ten times a tensor is taken in fp32.
      const at::Tensor scaled = middles * std::pow(10.0, i - 6);
      for (int64_t k = 0; k < scaled.numel(); ++k) {
        const auto value = scaled[k].item<float>();
        made[size++] = value;
        made[size++] = -value;
      }
    }
    made[size++] = 0;
    made[size++] = 1;
    std::sort(made.begin(), made.end());
    return made;
  }();
  return map;
}

int64_t Quantised::bytes() const {
  const size_t tensors =
      codes.nbytes() + scales.nbytes() + (groups.defined() ? groups.nbytes() : 0);
  return static_cast<int64_t>(tensors + (groups.defined() ? parts.size() * sizeof(float) : 0));
}

Quantised Quantised::to(at::Device device) const {
  Quantised moved = *this;
  moved.codes = codes.to(device);
  moved.scales = scales.to(device);
  if (groups.defined()) moved.groups = groups.to(device);
  return moved;
}

Quantised allocateQuantised(Quantization kind, const std::vector<int64_t>& partRows,
                            int64_t inputs) {
  Quantised q{.kind = kind, .codes = {}, .scales = {}, .groups = {}, .parts = {}};
  const bool nf4 = kind == Quantization::kNf4;
  if (nf4 && inputs % kNf4Block != 0) {
    fail(ErrorCode::kBadArgument, "rows of ", inputs, " weights are no whole blocks of nf4, of ",
         kNf4Block);
  }
  const int64_t blocks = inputs / kNf4Block;
  int64_t outputs = 0, groups = 0;
  for (const int64_t rows : partRows) {
    q.parts.push_back({.firstRow = outputs, .firstGroup = groups, .offset = 0});
    outputs += rows;
    groups += (rows * blocks + kNf4Group - 1) / kNf4Group;
  }
  q.codes =
      nf4 ? at::empty({outputs, inputs / 2}, at::kByte) : at::empty({outputs, inputs}, at::kChar);
  q.scales = nf4 ? at::empty({outputs, blocks}, at::kByte) : at::empty({outputs}, at::kFloat);
  if (nf4) q.groups = at::empty({groups}, at::kFloat);
  return q;
}

bool quantisePart(Quantised& q, size_t index, const at::Tensor& part_OI) {
  return q.kind == Quantization::kNf4 ? quantiseNf4(q, index, part_OI)
                                      : quantiseInt8(q, index, part_OI);
}

at::Tensor dequantisedByTensorOperations(const Quantised& q, int64_t first, int64_t rows) {
  const at::Device device = q.codes.device();
  const int64_t inputs = q.inputs();
  const at::Tensor codes = q.codes.narrow(0, first, rows);
  if (q.kind == Quantization::kInt8) {
    return (codes.to(at::kFloat) * q.scales.narrow(0, first, rows).unsqueeze(1)).mul_(1.0f / 127);
  }
  const auto onDevice = [&](const auto& table) {
    return at::tensor(at::ArrayRef<float>(table.data(), table.size())).to(device);
  };
  const auto lookUp = [](const at::Tensor& table, const at::Tensor& places) {
    return table.index_select(0, places.reshape({-1}).to(at::kInt)).view(places.sizes());
  };
  const int64_t blocks = inputs / kNf4Block;
  const at::Tensor magnitudes =
      lookUp(onDevice(dynamicMap()), q.scales.narrow(0, first, rows)).to(at::kDouble);
  for (size_t p = 0; p < q.parts.size(); ++p) {
    const kernels::Nf4Part& part = q.parts[p];
    const int64_t end = p + 1 < q.parts.size() ? q.parts[p + 1].firstRow : q.outputs();
    const int64_t from = std::max(first, part.firstRow), to = std::min(first + rows, end);
    if (from >= to) continue;
    const at::Tensor places =
        at::arange((from - part.firstRow) * blocks, (to - part.firstRow) * blocks,
                   at::TensorOptions().dtype(at::kLong).device(device))
            .floor_divide(kNf4Group)
            .add_(part.firstGroup);
    const at::Tensor groups = q.groups.index_select(0, places).view({to - from, blocks});
    const at::Tensor some = magnitudes.narrow(0, from - first, to - from);
    // The product is rounded to fp32 before the sum is.
    some.copy_((some * groups).to(at::kFloat).add_(part.offset));
  }
  const at::Tensor places = at::stack({codes.bitwise_right_shift(4), codes.bitwise_and(15)}, -1);
  return lookUp(onDevice(nf4Table()), places)
      .view({rows, blocks, kNf4Block})
      .mul_(magnitudes.to(at::kFloat).unsqueeze(2))
      .view({rows, inputs});
}

at::Tensor dequantisedRows(const Quantised& q, int64_t first, int64_t rows, at::ScalarType type) {
  if (!q.codes.is_cpu()) {
    return dequantisedByTensorOperations(q, first, rows).to(type);
  }
  const bool narrow = type == at::kBFloat16;
  const int64_t inputs = q.inputs();
  const at::Tensor w_RI = at::empty({rows, inputs}, narrow ? at::kBFloat16 : at::kFloat);
  const kernels::QuantisedWeight weight = weightOf(q);
  const kernels::DequantiseKernels& kernels = kernels::dequantiseKernels();
  at::parallel_for(0, rows, rowGrain(inputs), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (narrow) {
        kernels.toBf16(weight, first + r, 0, inputs, writePointer<Bf16>(w_RI) + r * inputs);
      } else {
        kernels.toFloat(weight, first + r, 0, inputs, writePointer<float>(w_RI) + r * inputs);
      }
    }
  });
  return w_RI.to(type);
}

kernels::QuantisedWeight weightOf(const Quantised& q) {
  const bool nf4 = q.kind == Quantization::kNf4;
  return {.nf4 = nf4,
          .inputs = q.inputs(),
          .codes = readPointer<uint8_t>(q.codes),
          .scales = nf4 ? readPointer<uint8_t>(q.scales) : nullptr,
          .groups = nf4 ? readPointer<float>(q.groups) : nullptr,
          .parts = q.parts.data(),
          .partCount = static_cast<int64_t>(q.parts.size()),
          .table = nf4Table().data(),
          .map = dynamicMap().data(),
          .magnitudes = nf4 ? nullptr : readPointer<float>(q.scales)};
}

}  // namespace acoer
