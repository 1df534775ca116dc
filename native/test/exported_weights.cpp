// Tensors written into files of another layout, and read back: what is stored is what the types can
// hold, and a file that cannot take it is an error.
#include <ATen/ATen.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "model/exported.h"
#include "train_helpers.h"

namespace acoer::check {
namespace {

const Cancel kNever;

// A file that is removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(int64_t bytes) {
    descriptor_ = ::mkstemp(path_.data());
    ACOER_CHECK(descriptor_ >= 0 && ::ftruncate(descriptor_, bytes) == 0);
  }
  ~ScratchFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  StoredFile opened() const { return {descriptor_, path_}; }

 private:
  std::string path_ = "/tmp/acoer-check-XXXXXX";
  int descriptor_ = -1;
};

StoredTensor placeOf(const std::string& dtype, std::vector<int64_t> shape, int64_t bytes,
                     int64_t heads = 0) {
  StoredTensor place;
  place.name = "a";
  place.dtype = dtype;
  place.shape = std::move(shape);
  place.end = bytes;
  place.heads = heads;
  return place;
}

// As it is stored, and as that is read back.
at::Tensor throughFile(const StoredTensor& place, const at::Tensor& rows) {
  const ScratchFile file(place.end);
  const at::Tensor stored = TensorWriter(file.path()).write(place, 0, rows);
  const TensorTable table{{file.opened()}, {place}};
  const at::Tensor back = at::empty_like(rows);
  TensorReader(table).read("a", back, kNever);
  ACOER_CHECK(at::equal(stored, back));
  return back;
}

ACOER_TEST(exported_q8_0_is_within_half_a_step) {
  const at::Tensor rows = at::randn({3, 96});
  rows[1] = 0;
  rows[2].slice(0, 32, 64).mul_(1e-4);
  const at::Tensor back = throughFile(placeOf("Q8_0", {3, 96}, 9 * 34), rows);
  const at::Tensor blocks = rows.view({9, 32});
  const at::Tensor step = blocks.abs().amax(1, true) / 127;
  // Half a step, and what rounding the scale to float16 moves 127 of them; under 2^-14 that is
  // coarser.
  const at::Tensor bound = step * (0.5 + 127 * 0x1p-11) + 127 * 0x1p-25;
  ACOER_CHECK(((back.view({9, 32}) - blocks).abs() <= bound).all().item<bool>());
  ACOER_CHECK(back[1].eq(0).all().item<bool>());
}

ACOER_TEST(exported_q8_0_has_ggmls_bytes) {
  // Scale 1: the numbers are their own multiples; halves are rounded away from zero.
  at::Tensor row = at::zeros({1, 32});
  const std::vector<double> numbers{127, -127, 0.5, -2.5, 2.4};
  for (size_t i = 0; i < numbers.size(); ++i) row[0][static_cast<int64_t>(i)] = numbers[i];
  const at::Tensor bytes = encoded("a", "Q8_0", row).bytes;
  const auto* from = static_cast<const int8_t*>(bytes.data_ptr());
  c10::Half scale;
  std::memcpy(&scale, from, sizeof(scale));
  ACOER_CHECK(bytes.numel() == 34 && static_cast<float>(scale) == 1);
  ACOER_CHECK(from[2] == 127 && from[3] == -127 && from[4] == 1 && from[5] == -3 && from[6] == 2);
}

ACOER_TEST(exported_floats_are_rounded_once) {
  const at::Tensor rows = at::randn({5, 7}) * 100;
  const std::map<std::string, at::ScalarType> types{
      {"F32", at::kFloat}, {"BF16", at::kBFloat16}, {"F16", at::kHalf}};
  for (const auto& [dtype, type] : types) {
    const int64_t bytes = 35 * static_cast<int64_t>(c10::elementSize(type));
    const at::Tensor back = throughFile(placeOf(dtype, {5, 7}, bytes), rows);
    ACOER_CHECK(at::equal(back, rows.to(type).to(at::kFloat)));
  }
}

ACOER_TEST(exported_heads_alternate_and_come_back) {
  // Two heads of six rows: in the file a head's rows are 0 3 1 4 2 5.
  const at::Tensor rows = at::arange(12, at::kFloat).view({12, 1}).expand({12, 32}).contiguous();
  const std::map<std::string, int64_t> sizes{{"F32", 12 * 128}, {"Q8_0", 12 * 34}};
  for (const auto& [dtype, bytes] : sizes) {
    const StoredTensor place = placeOf(dtype, {12, 32}, bytes, 2);
    const at::Tensor back = throughFile(place, rows);
    ACOER_CHECK_LE((back - rows).abs().max().item<double>(), 0.01);
  }
  const ScratchFile file(12 * 4);
  TensorWriter(file.path()).write(placeOf("F32", {12}, 48, 2), 0, rows.select(1, 0).contiguous());
  StoredTensor plain = placeOf("F32", {12}, 48);
  const TensorTable table{{file.opened()}, {plain}};
  const at::Tensor inFile = at::empty({12});
  TensorReader(table).read("a", inFile, kNever);
  const at::Tensor want = at::tensor({0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}, at::kFloat);
  ACOER_CHECK(at::equal(inFile, want));
}

ACOER_TEST(exported_numbers_beyond_a_type_are_refused) {
  const at::Tensor rows = at::zeros({2, 32});
  const auto refuse = [&](double value, const char* dtype) {
    rows[1][3] = value;
    ACOER_CHECK_THROWS(encoded("a", dtype, rows), ErrorCode::kBadArgument,
                       std::string("the tensor a has numbers that are not finite as ") + dtype);
  };
  refuse(65520, "F16");  // rounds to infinity
  refuse(65520.0 * 127, "Q8_0");
  for (const char* dtype : {"F32", "BF16", "F16", "Q8_0"}) {
    refuse(NAN, dtype);
    refuse(INFINITY, dtype);
  }
  rows[1][3] = 65504;
  ACOER_CHECK(encoded("a", "F16", rows).numbers[1][3].item<float>() == 65504);
  ACOER_CHECK_THROWS(encoded("a", "Q8_0", at::zeros({2, 16})), ErrorCode::kBadArgument,
                     "cannot be written as Q8_0");
  ACOER_CHECK_THROWS(encoded("a", "I64", rows), ErrorCode::kBadArgument,
                     "cannot be written as I64");
}

ACOER_TEST(exported_files_that_fail_are_errors) {
  const at::Tensor rows = at::zeros({2, 32});
  const StoredTensor place = placeOf("F32", {2, 32}, 256);
  ACOER_CHECK_THROWS(TensorWriter("/tmp/acoer-check-none/a"), ErrorCode::kBadFile, "cannot write");
  ACOER_CHECK_THROWS(TensorWriter("/dev/full").write(place, 0, rows), ErrorCode::kBadFile,
                     "No space left on device");
  const ScratchFile file(255);
  TensorTable table{{file.opened()}, {place}};
  ACOER_CHECK_THROWS(TensorReader{table}, ErrorCode::kBadFile, "would span bytes 0 to 256 of 255");
}

ACOER_TEST(exported_weights_are_refused_before_they_are_written) {
  const TensorFile weights({{"a", at::rand({6, 4})}});
  const ScratchFile file(96);
  ExportOptions options;
  options.weights = weights.table;
  options.path = file.path();
  const auto refuse = [&](const StoredTensor& place, ErrorCode code, const std::string& part) {
    options.places = {place};
    ACOER_CHECK_THROWS(exportWeights(options, kNever), code, part);
  };
  refuse(placeOf("F32", {4, 6}, 96), ErrorCode::kBadShape, "shape [6, 4], expected [4, 6]");
  refuse(placeOf("F32", {6, 4}, 96, 2), ErrorCode::kBadArgument, "are not pairs of 2 heads");
  refuse(placeOf("Q8_0", {6, 4}, 96), ErrorCode::kBadArgument, "cannot be written as Q8_0");
  options.places = {placeOf("F32", {6, 4}, 96)};
  Cancel cancelled;
  cancelled.request();
  ACOER_CHECK_THROWS(exportWeights(options, cancelled), ErrorCode::kCancelled, "cancelled");
  ACOER_CHECK(exportWeights(options, kNever).empty());
}

}  // namespace
}  // namespace acoer::check
