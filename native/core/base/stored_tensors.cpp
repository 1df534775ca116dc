#include "base/stored_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace acoer {

namespace {

constexpr int64_t kReadBlock = int64_t{4} << 20;

struct StoredType {
  const char* name;
  at::ScalarType type;
};

// The types that this engine reads or writes.
constexpr std::array<StoredType, 5> kTypes{{{"F64", at::kDouble},
                                            {"F32", at::kFloat},
                                            {"BF16", at::kBFloat16},
                                            {"F16", at::kHalf},
                                            {"I64", at::kLong}}};

at::ScalarType typeOf(const std::string& name) {
  for (const StoredType& known : kTypes) {
    if (name == known.name) return known.type;
  }
  return at::ScalarType::Undefined;
}

const char* nameOf(at::ScalarType type) {
  for (const StoredType& known : kTypes) {
    if (known.type == type) return known.name;
  }
  fail(ErrorCode::kInternal, "no safetensors name for ", c10::toString(type));
}

std::string shapeText(c10::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

// Of a call that has set errno.
[[noreturn]] void cannot(const char* act, const std::string& path) {
  fail(ErrorCode::kBadFile, "cannot ", act, " ", path, ": ", std::strerror(errno));
}

int64_t sizeOf(const StoredFile& file) {
  struct stat info{};
  if (::fstat(file.descriptor, &info) != 0) cannot("read", file.path);
  return info.st_size;
}

}  // namespace

TensorReader::TensorReader(const TensorTable& table) : files_(table.files) {
  if (files_.empty()) fail(ErrorCode::kBadArgument, "a table of tensors needs a file");
  std::vector<int64_t> fileSizes;
  for (const StoredFile& file : files_) fileSizes.push_back(sizeOf(file));
  for (const StoredTensor& tensor : table.tensors) {
    checkPlace(tensor, fileSizes);
    if (!tensors_.emplace(tensor.name, &tensor).second) {
      fail(ErrorCode::kBadFile, pathOf(tensor), " holds the tensor ", tensor.name,
           " a second time");
    }
  }
}

void TensorReader::checkPlace(const StoredTensor& tensor,
                              const std::vector<int64_t>& fileSizes) const {
  if (tensor.file < 0 || tensor.file >= std::ssize(files_)) {
    fail(ErrorCode::kBadArgument, "the tensor ", tensor.name, " has file index ", tensor.file,
         ", but the table has ", files_.size(), " file(s)");
  }
  const int64_t fileSize = fileSizes[static_cast<size_t>(tensor.file)];
  if (tensor.begin < 0 || tensor.end < tensor.begin || tensor.end > fileSize) {
    fail(ErrorCode::kBadFile, pathOf(tensor), ": tensor ", tensor.name, " would span bytes ",
         tensor.begin, " to ", tensor.end, " of ", fileSize);
  }
}

const std::string& TensorReader::pathOf(const StoredTensor& tensor) const {
  return files_[static_cast<size_t>(tensor.file)].path;
}

std::string TensorReader::lacks() const {
  return files_.front().path + (files_.size() > 1 ? " and the other shards lack" : " lacks");
}

void TensorReader::readBytes(const StoredFile& file, int64_t from, int64_t count, char* out,
                             const Cancel& cancel) const {
  while (count > 0) {
    cancel.check();
    const auto block = static_cast<size_t>(std::min(count, kReadBlock));
    const ssize_t got = ::pread(file.descriptor, out, block, from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot("read", file.path);
    if (got == 0) fail(ErrorCode::kBadFile, file.path, " became shorter while it was being read");
    out += got;
    from += got;
    count -= got;
  }
}

const StoredTensor& TensorReader::check(const std::string& name, c10::ArrayRef<int64_t> shape,
                                        at::ScalarType wanted) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(ErrorCode::kBadFile, lacks(), " the tensor ", name);
  const StoredTensor& tensor = *found->second;
  const std::string which = pathOf(tensor) + ": tensor " + name;
  const at::ScalarType type = typeOf(tensor.dtype);
  const bool usable = type != at::ScalarType::Undefined &&
                      (wanted == at::kLong ? type == at::kLong : c10::isFloatingType(type));
  if (!usable) {
    fail(ErrorCode::kBadFile, which, " has type ", tensor.dtype,
         "; F64, F32, F16 or BF16 is needed");
  }
  if (shape != c10::ArrayRef<int64_t>(tensor.shape)) {
    fail(ErrorCode::kBadShape, which, " has shape ", shapeText(tensor.shape), ", expected ",
         shapeText(shape));
  }
  const int64_t bytes =
      c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(type));
  if (tensor.end - tensor.begin != bytes) {
    fail(ErrorCode::kBadShape, which, " takes ", tensor.end - tensor.begin, " bytes instead of ",
         bytes);
  }
  return tensor;
}

void TensorReader::checkNoOthers(const std::set<std::string>& wanted,
                                 const std::string& owner) const {
  for (const auto& [name, tensor] : tensors_) {
    if (wanted.count(name) > 0) continue;
    fail(ErrorCode::kBadFile, pathOf(*tensor), " holds the tensor ", name, ", which ", owner,
         " does not have");
  }
}

void TensorReader::read(const std::string& name, const at::Tensor& out,
                        const Cancel& cancel) const {
  const StoredTensor& tensor = check(name, out.sizes(), out.scalar_type());
  const StoredFile& file = files_[static_cast<size_t>(tensor.file)];
  const at::ScalarType type = typeOf(tensor.dtype);
  const bool direct = type == out.scalar_type() && out.is_contiguous();
  const at::Tensor stored = direct ? out : at::empty(out.sizes(), at::TensorOptions().dtype(type));
  const int64_t bytes = tensor.end - tensor.begin;
  auto* to = static_cast<char*>(stored.data_ptr());
  // Copying out of the page cache is bound by the CPU, so all threads share the work.
  at::parallel_for(0, (bytes + kReadBlock - 1) / kReadBlock, 1, [&](int64_t first, int64_t last) {
    const int64_t from = first * kReadBlock;
    const int64_t until = std::min(bytes, last * kReadBlock);
    readBytes(file, tensor.begin + from, until - from, to + from, cancel);
  });
  if (!direct) out.copy_(stored);
}

void writeSafetensors(const std::string& path, const NamedTensors& tensors) {
  std::vector<const NamedTensors::value_type*> order;
  for (const auto& item : tensors) order.push_back(&item);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const auto sizeA = a->second.element_size(), sizeB = b->second.element_size();
    return sizeA != sizeB ? sizeA > sizeB : a->first < b->first;
  });
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  uint64_t at = 0;
  for (const auto* item : order) {
    const at::Tensor& value = item->second;
    const uint64_t end = at + static_cast<uint64_t>(value.numel() * value.element_size());
    header += ",\"" + item->first + "\":{\"dtype\":\"" + nameOf(value.scalar_type()) +
              "\",\"shape\":" + shapeText(value.sizes()) + ",\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  const auto put = [&](const void* data, size_t size) {
    if (!file || (size > 0 && std::fwrite(data, 1, size, file.get()) != size)) {
      cannot("write", path);
    }
  };
  std::array<unsigned char, 8> lengthBytes{};
  for (size_t i = 0; i < 8; ++i) lengthBytes[i] = header.size() >> (8 * i) & 0xFF;
  put(lengthBytes.data(), 8);
  put(header.data(), header.size());
  for (const auto* item : order) {
    const at::Tensor flat = item->second.detach().to(at::kCPU).contiguous();
    put(flat.data_ptr(), static_cast<size_t>(flat.numel() * flat.element_size()));
  }
  if (std::fclose(file.release()) != 0) cannot("write", path);
}

}  // namespace acoer
