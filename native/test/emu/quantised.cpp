// The kernels of quantised weight matrices: made plain, to the bit what quantised_args.h says;
// products against float64 over these weights.
#include "kernels/quantised.cuh"

#include "check.h"

using namespace acoer::cuda;

namespace {

template <class Quantised>
constexpr bool kNf4 = std::is_same_v<Quantised, Nf4Matrix>;

// The memory of a matrix of random codes and scales, and its weights as fp32 holds them.
template <class Quantised>
struct QuantisedData {
  size_t O, I;
  std::vector<uint8_t> codes, scales;
  std::vector<float> numbers, tables, weights_OI;  // numbers: of groups or rows
  Quantised w{};

  // `partRows`: of the named tensors.
  QuantisedData(emu::Data& data, const std::vector<int>& partRows, int inputs)
      : O(static_cast<size_t>(std::accumulate(partRows.begin(), partRows.end(), 0))),
        I(static_cast<size_t>(inputs)),
        weights_OI(O * I) {
    w.outputs = static_cast<int32_t>(O);
    w.inputs = inputs;
    if constexpr (kNf4<Quantised>) {
      fillNf4(data, partRows);
    } else {
      fillInt8(data);
    }
  }

  static uint8_t byteOf(emu::Data& data) { return static_cast<uint8_t>(data.uniform() * 256); }
  static float floatOf(emu::Data& data, double mean, double deviation) {
    return static_cast<float>(mean + deviation * data.normal());
  }

  void fillInt8(emu::Data& data) {
    for (size_t i = 0; i < O * I; ++i) codes.push_back(byteOf(data));
    for (size_t o = 0; o < O; ++o) numbers.push_back(floatOf(data, 0.2, 0.1));
    for (size_t i = 0; i < O * I; ++i) {
      weights_OI[i] =
          static_cast<float>(static_cast<int8_t>(codes[i])) * numbers[i / I] * kInt8Step;
    }
    w.codes = reinterpret_cast<const int8_t*>(codes.data());
    w.magnitudes = numbers.data();
  }

  void fillNf4(emu::Data& data, const std::vector<int>& partRows) {
    for (int i = 0; i < kNf4Values + kNf4ScaleValues; ++i) {
      tables.push_back(floatOf(data, 0, i < kNf4Values ? 0.7 : 0.3));
    }
    for (size_t i = 0; i < O * I / 2; ++i) codes.push_back(byteOf(data));
    const size_t blocks = I / kNf4Block;
    for (size_t i = 0; i < O * blocks; ++i) scales.push_back(byteOf(data));
    Nf4Part part{0, 0, 0};
    for (Nf4Part& unused : w.parts) unused.firstRow = w.outputs;
    for (size_t p = 0; p < partRows.size(); ++p) {
      part.offset = floatOf(data, 0.05, 0.01);
      w.parts[p] = part;
      const size_t rows = static_cast<size_t>(partRows[p]);
      const size_t groups = (rows * blocks + kNf4Group - 1) / kNf4Group;
      for (size_t g = 0; g < groups; ++g) numbers.push_back(floatOf(data, 0.1, 0.02));
      for (size_t i = 0; i < rows * I; ++i) setNf4(part, i);
      part.firstRow += partRows[p];
      part.firstGroup += static_cast<int32_t>(groups);
    }
    w.codes = codes.data();
    w.scales = scales.data();
    w.groups = numbers.data();
    w.tables = tables.data();
  }

  // Weight i of a part.
  void setNf4(const Nf4Part& part, size_t i) {
    const size_t at = static_cast<size_t>(part.firstRow) * I + i;
    const size_t group = static_cast<size_t>(part.firstGroup) + i / kNf4Block / kNf4Group;
    const float unscaled = tables[kNf4Values + scales[at / kNf4Block]] * numbers[group];
    const float scale = unscaled + part.offset;
    const int code = at % 2 == 0 ? codes[at / 2] >> 4 : codes[at / 2] & 15;
    weights_OI[at] = tables[static_cast<size_t>(code)] * scale;
  }
};

std::string sizes(const char* what, int rows, const std::vector<int>& partRows, int inputs) {
  std::string text = std::string(what) + " of " + std::to_string(rows) + " rows, [";
  for (const int part : partRows) text += std::to_string(part) + " ";
  return text + "x " + std::to_string(inputs) + "]";
}

dim3 gridOf(int x, int y) { return {static_cast<unsigned>(x), static_cast<unsigned>(y)}; }

template <class T, class Quantised>
void checkDequantised(const std::vector<int>& partRows, int inputs) {
  const std::string what = sizes("weights", 0, partRows, inputs);
  emu::Data data(static_cast<uint64_t>(inputs) + partRows.size());
  const QuantisedData<Quantised> matrix(data, partRows, inputs);
  constexpr size_t kGuard = 32;
  std::vector<T> found = emu::unwritten<T>(matrix.O * matrix.I + kGuard);
  std::vector<T> expected = found;
  for (size_t i = 0; i < matrix.O * matrix.I; ++i) {
    expected[i] = emu::toStorage<T>(matrix.weights_OI[i]);
  }
  constexpr bool fp32 = std::is_same_v<T, float>;
  const dim3 grid = gridOf(dequantiseRowBlocks(matrix.w.outputs), dequantiseBlocks(inputs));
  if constexpr (kNf4<Quantised>) {
    emu::launch(fp32 ? acoer_dequantise_nf4_fp32 : acoer_dequantise_nf4_bf16, grid,
                dim3(kDequantiseThreads), 0, DequantiseNf4Args{matrix.w, found.data()});
  } else {
    emu::launch(fp32 ? acoer_dequantise_int8_fp32 : acoer_dequantise_int8_bf16, grid,
                dim3(kDequantiseThreads), 0, DequantiseInt8Args{matrix.w, found.data()});
  }
  emu::expectSame(found, expected, what);
}

enum class Start { kNothing, kBias, kAdd };

template <class T, class Quantised>
void startProduct(const QuantisedProductArgs<Quantised>& args) {
  constexpr bool fp32 = std::is_same_v<T, float>;
  const dim3 grid = gridOf(quantisedRowTiles(args.rows), quantisedBlocks(args.w.outputs));
  if constexpr (kNf4<Quantised>) {
    emu::launch(fp32 ? acoer_product_nf4_fp32 : acoer_product_nf4_bf16, grid,
                dim3(kQuantisedThreads), 0, args);
  } else {
    emu::launch(fp32 ? acoer_product_int8_fp32 : acoer_product_int8_bf16, grid,
                dim3(kQuantisedThreads), 0, args);
  }
}

// Rows of x and y are parts of longer ones, whose rest must stay as it is.
template <class T, class Quantised>
void checkProduct(int rows, const std::vector<int>& partRows, int inputs, Start start) {
  const std::string what = sizes("products", rows, partRows, inputs);
  emu::Data data(static_cast<uint64_t>((rows * 4 + static_cast<int>(start)) * 10000 + inputs));
  const QuantisedData<Quantised> matrix(data, partRows, inputs);
  const size_t N = static_cast<size_t>(rows), O = matrix.O, I = matrix.I;
  const size_t xStride = I + 8, yStride = O + 3;
  const std::vector<T> x = data.normals<T>(N * xStride, 0.1), bias = data.normals<T>(O);
  std::vector<T> y =
      start == Start::kAdd ? data.normals<T>(N * yStride, 0, 3) : emu::unwritten<T>(N * yStride);
  const std::vector<T> before = y;
  const float scale = start == Start::kAdd ? 0.5f : 1.0f;
  startProduct<T, Quantised>({.w = matrix.w,
                              .x_NI = x.data(),
                              .y_NO = y.data(),
                              .bias_O = start == Start::kBias ? bias.data() : nullptr,
                              .xStride = static_cast<int32_t>(xStride),
                              .yStride = static_cast<int32_t>(yStride),
                              .rows = rows,
                              .add = start == Start::kAdd,
                              .scale = scale});
  emu::SameRoundings roundings;
  for (size_t n = 0; n < N; ++n) {
    for (size_t o = 0; o < yStride; ++o) {
      const size_t at = n * yStride + o;
      if (o >= O) {
        if (!emu::sameBits(y[at], before[at])) emu::fail(what + ": written beside a row");
        continue;
      }
      double sum = 0, size = 0;
      for (size_t i = 0; i < I; ++i) {
        const double weight = emu::toDouble(emu::toStorage<T>(matrix.weights_OI[o * I + i]));
        const double product = scale * emu::toDouble(x[n * xStride + i]) * weight;
        sum += product;
        size += std::abs(product);
      }
      if (start == Start::kAdd) sum += emu::toDouble(before[at]);
      if (start == Start::kBias) sum += emu::toDouble(bias[o]);
      const double bound = 1e-6 * size + 1.01 * emu::kRounding<T> * std::abs(sum);
      emu::expectNear(emu::toDouble(y[at]), sum, bound, what);
      if (!std::is_same_v<T, float>) roundings.add(y[at], emu::toStorage<T>(sum));
    }
  }
  roundings.expect(what);
}

// Of one named tensor and of three, with groups that are not whole.
const std::vector<std::vector<int>> kParts{{1}, {5, 7, 3}, {40}, {33, 18}, {130, 5}};

template <class T, class Quantised>
void checkDequantisedSizes() {
  emu::forEachSchedule([] {
    int inputs = 64;
    for (const std::vector<int>& parts : kParts) {
      checkDequantised<T, Quantised>(parts, inputs);
      inputs += inputs < 256 ? 64 : 1920;
    }
  });
}

template <class T, class Quantised>
void checkProductSizes() {
  emu::forEachSchedule(
      [] {
        int inputs = 64, rows = 1;
        for (const std::vector<int>& parts : kParts) {
          for (const Start start : {Start::kNothing, Start::kBias, Start::kAdd}) {
            checkProduct<T, Quantised>(rows, parts, inputs, start);
            rows = rows * 2 % 23;
          }
          inputs += inputs < 256 ? 64 : 1024;
        }
      },
      2);
}

// A row's numbers do not depend on how many others there are.
template <class Quantised>
void checkSameRow() {
  emu::Data data(7);
  const QuantisedData<Quantised> matrix(data, {9, 8}, 320);
  const std::vector<Bf16> x = data.normals<Bf16>(40 * matrix.I);
  std::vector<Bf16> first;
  for (const int rows : {1, 4, 5, 8, 9, 16, 17, 40}) {
    std::vector<Bf16> y = emu::unwritten<Bf16>(static_cast<size_t>(rows) * matrix.O);
    startProduct<Bf16, Quantised>({.w = matrix.w,
                                   .x_NI = x.data() + (40 - static_cast<size_t>(rows)) * matrix.I,
                                   .y_NO = y.data(),
                                   .bias_O = nullptr,
                                   .xStride = static_cast<int32_t>(matrix.I),
                                   .yStride = static_cast<int32_t>(matrix.O),
                                   .rows = rows,
                                   .add = 0,
                                   .scale = 1});
    y.erase(y.begin(), y.end() - static_cast<std::ptrdiff_t>(matrix.O));
    if (first.empty()) first = y;
    emu::expectSame(y, first, std::to_string(rows) + " rows");
  }
}

}  // namespace

EMU_TEST(quantised_plain_nf4_bf16) { checkDequantisedSizes<Bf16, Nf4Matrix>(); }
EMU_TEST(quantised_plain_nf4_fp32) { checkDequantisedSizes<float, Nf4Matrix>(); }
EMU_TEST(quantised_plain_int8_bf16) { checkDequantisedSizes<Bf16, Int8Matrix>(); }
EMU_TEST(quantised_plain_int8_fp32) { checkDequantisedSizes<float, Int8Matrix>(); }
EMU_TEST(quantised_product_nf4_bf16) { checkProductSizes<Bf16, Nf4Matrix>(); }
EMU_TEST(quantised_product_nf4_fp32) { checkProductSizes<float, Nf4Matrix>(); }
EMU_TEST(quantised_product_int8_bf16) { checkProductSizes<Bf16, Int8Matrix>(); }
EMU_TEST(quantised_product_int8_fp32) { checkProductSizes<float, Int8Matrix>(); }
EMU_TEST(quantised_product_row_alone) {
  checkSameRow<Nf4Matrix>();
  checkSameRow<Int8Matrix>();
}
