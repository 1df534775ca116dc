// The dropout mask's kernel against the loop of dropoutMask in native/core/ops/dropout.cpp, bit for
// bit.
#include "kernels/dropout.cuh"

#include "../../core/base/philox.h"
#include "check.h"

using namespace acoer::cuda;

namespace {

template <class T>
void checkMask(int tokens, int width, uint32_t threshold) {
  emu::Data data(static_cast<uint64_t>(tokens * 1000 + width));
  const auto word = [&] { return static_cast<uint64_t>(data.uniform() * 0x1p53) * 2049; };
  std::vector<uint64_t> sequences;
  std::vector<int64_t> positions;
  for (int t = 0; t < tokens; ++t) {
    sequences.push_back(word());
    positions.push_back(static_cast<int64_t>(word() % 100000));
  }
  const auto T_ = static_cast<size_t>(tokens), W = static_cast<size_t>(width);
  std::vector<T> mask = emu::unwritten<T>(T_ * W), expected(T_ * W);
  const DropoutArgs args{.sequences_T = sequences.data(),
                         .positions_T = positions.data(),
                         .mask_TW = mask.data(),
                         .seed = word(),
                         .place = word() % 500,
                         .tokens = tokens,
                         .width = width,
                         .threshold = threshold,
                         .keep = static_cast<float>(65536.0 / (65536.0 - threshold))};
  emu::launch(std::is_same_v<T, float> ? acoer_dropout_fp32 : acoer_dropout_bf16,
              dim3(static_cast<unsigned>(dropoutBlocks(tokens, width))), dim3(kDropoutThreads), 0,
              args);
  for (size_t t = 0; t < T_; ++t) {
    for (size_t c = 0; c < W; ++c) {
      const auto bits = acoer::philox(
          args.seed ^ sequences[t], static_cast<uint64_t>(positions[t]) << 32 | c / 8, args.place);
      const uint32_t draw = c % 2 ? bits[c % 8 / 2] >> 16 : bits[c % 8 / 2] & 0xFFFF;
      expected[t * W + c] = emu::toStorage<T>(draw < threshold ? 0 : args.keep);
    }
  }
  emu::expectSame(mask, expected, "mask");
}

template <class T>
void checkSizes() {
  emu::forEachSchedule([] {
    int tokens = 0;
    for (const int width : {1, 7, 8, 9, 64, 100, 2048}) {
      tokens = tokens % 40 + 13;
      for (const uint32_t threshold : {0u, 3277u, 32768u, 65535u}) {
        checkMask<T>(tokens, width, threshold);
      }
    }
  });
}

}  // namespace

EMU_TEST(dropout_bf16) { checkSizes<Bf16>(); }
EMU_TEST(dropout_fp32) { checkSizes<float>(); }
