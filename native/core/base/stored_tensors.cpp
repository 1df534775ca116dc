#include "base/stored_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

namespace acoer {

namespace {

constexpr int64_t kReadBlock = int64_t{4} << 20;

struct StoredType {
  const char* name;
  at::ScalarType type;  // that it is read as
  int64_t bytes;        // of a block of `numbers`, which are neighbours in a row
  int64_t numbers = 1;
};

// ggml's Q8_0: 32 numbers share a scale in float16, and are its multiples by bytes.
constexpr int64_t kBlock = 32, kBlockBytes = 2 + kBlock;

// The types that this engine reads or writes.
constexpr std::array<StoredType, 6> kTypes{{{"F64", at::kDouble, 8},
                                            {"F32", at::kFloat, 4},
                                            {"BF16", at::kBFloat16, 2},
                                            {"F16", at::kHalf, 2},
                                            {"I64", at::kLong, 8},
                                            {"Q8_0", at::kFloat, kBlockBytes, kBlock}}};

const StoredType* typeNamed(const std::string& name) {
  for (const StoredType& known : kTypes) {
    if (name == known.name) return &known;
  }
  return nullptr;
}

const char* nameOf(at::ScalarType type) {
  for (const StoredType& known : kTypes) {
    if (known.type == type) return known.name;
  }
  fail(ErrorCode::kInternal, "no safetensors name for ", c10::toString(type));
}

// Of a tensor of `shape`; less than 0 if its rows are not of whole blocks.
int64_t bytesOf(const StoredType& type, c10::ArrayRef<int64_t> shape) {
  if (type.numbers > 1 && (shape.empty() || shape.back() % type.numbers != 0)) return -1;
  return c10::multiply_integers(shape) / type.numbers * type.bytes;
}

template <class Each>
void forBlocks(int64_t blocks, const Each& each) {
  at::parallel_for(0, blocks, 1 << 12, [&](int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) each(block);
  });
}

void fromBlocks(const char* stored, const at::Tensor& out) {
  auto* numbers = out.data_ptr<float>();
  forBlocks(out.numel() / kBlock, [&](int64_t block) {
    const char* from = stored + block * kBlockBytes;
    c10::Half scale;
    std::memcpy(&scale, from, sizeof(scale));
    for (int64_t i = 0; i < kBlock; ++i) {
      numbers[block * kBlock + i] = static_cast<float>(scale) * static_cast<int8_t>(from[2 + i]);
    }
  });
}

// As ggml's reference quantiser: the scale is divided by before it is rounded to float16.
void toBlocks(const at::Tensor& rows, char* out) {
  const auto* numbers = rows.data_ptr<float>();
  forBlocks(rows.numel() / kBlock, [&](int64_t block) {
    const float* from = numbers + block * kBlock;
    float most = 0;
    for (int64_t i = 0; i < kBlock; ++i) most = std::max(most, std::abs(from[i]));
    const float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    const c10::Half stored(scale);
    char* to = out + block * kBlockBytes;
    std::memcpy(to, &stored, sizeof(stored));
    for (int64_t i = 0; i < kBlock; ++i) {
      to[2 + i] = static_cast<char>(static_cast<int8_t>(std::round(from[i] * inverse)));
    }
  });
}

// Rows of whole heads in halves <-> in turns (StoredTensor::heads), as a view.
at::Tensor turned(const at::Tensor& rows, int64_t headRows, bool toTurns) {
  std::vector<int64_t> shape = rows.sizes().vec();
  const int64_t half = headRows / 2, heads = shape[0] / headRows;
  shape.erase(shape.begin());
  shape.insert(shape.begin(), {heads, toTurns ? 2 : half, toTurns ? half : 2});
  return rows.view(shape).transpose(1, 2);
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
  const StoredType* type = typeNamed(tensor.dtype);
  const bool usable = type != nullptr && (wanted == at::kLong ? type->type == at::kLong
                                                              : c10::isFloatingType(type->type));
  if (!usable) {
    fail(ErrorCode::kBadFile, which, " has type ", tensor.dtype,
         "; F64, F32, F16 or BF16 is needed");
  }
  if (shape != c10::ArrayRef<int64_t>(tensor.shape)) {
    fail(ErrorCode::kBadShape, which, " has shape ", shapeText(tensor.shape), ", expected ",
         shapeText(shape));
  }
  const int64_t bytes = bytesOf(*type, shape);
  if (tensor.end - tensor.begin != bytes) {
    fail(ErrorCode::kBadShape, which, " takes ", tensor.end - tensor.begin, " bytes instead of ",
         bytes);
  }
  if (tensor.heads > 0 && shape[0] % (2 * tensor.heads) != 0) {
    fail(ErrorCode::kBadShape, which, " has ", shape[0], " rows, which are not pairs of ",
         tensor.heads, " heads");
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
  readRows(check(name, out.sizes(), out.scalar_type()), 0, out, cancel);
}

void TensorReader::readRows(const StoredTensor& tensor, int64_t first, const at::Tensor& out,
                            const Cancel& cancel) const {
  const StoredFile& file = files_[static_cast<size_t>(tensor.file)];
  const StoredType& type = *typeNamed(tensor.dtype);
  const bool blocks = type.numbers > 1;
  const bool direct =
      !blocks && tensor.heads == 0 && type.type == out.scalar_type() && out.is_contiguous();
  const at::Tensor stored =
      direct ? out : at::empty(out.sizes(), at::TensorOptions().dtype(type.type));
  const int64_t bytes = bytesOf(type, out.sizes());
  std::vector<char> raw(blocks ? static_cast<size_t>(bytes) : 0);
  char* to = blocks ? raw.data() : static_cast<char*>(stored.data_ptr());
  const int64_t begin =
      tensor.begin + (first == 0 ? 0 : first * ((tensor.end - tensor.begin) / tensor.shape[0]));
  // Copying out of the page cache is bound by the CPU, so all threads share the work.
  at::parallel_for(0, (bytes + kReadBlock - 1) / kReadBlock, 1, [&](int64_t from, int64_t last) {
    const int64_t start = from * kReadBlock;
    const int64_t until = std::min(bytes, last * kReadBlock);
    readBytes(file, begin + start, until - start, to + start, cancel);
  });
  if (blocks) fromBlocks(to, stored);
  if (tensor.heads > 0) {
    out.copy_(turned(stored, tensor.shape[0] / tensor.heads, false).reshape(out.sizes()));
  } else if (!direct) {
    out.copy_(stored);
  }
}

Encoded encoded(const std::string& name, const std::string& dtype, const at::Tensor& rows) {
  const StoredType* type = typeNamed(dtype);
  const int64_t bytes = type == nullptr ? -1 : bytesOf(*type, rows.sizes());
  if (bytes < 0 || !c10::isFloatingType(type->type)) {
    fail(ErrorCode::kBadArgument, "the tensor ", name, " cannot be written as ", dtype);
  }
  const auto refuseUnlessFinite = [&](const at::Tensor& numbers) {
    if (at::isfinite(numbers).all().item<bool>()) return;
    fail(ErrorCode::kBadArgument, "the tensor ", name, " has numbers that are not finite as ",
         dtype);
  };
  Encoded out;
  if (type->numbers > 1) {
    refuseUnlessFinite(rows);  // a block has no place for them
    out.bytes = at::empty({bytes}, at::kByte);
    out.numbers = at::empty(rows.sizes(), at::kFloat);
    toBlocks(rows.contiguous(), static_cast<char*>(out.bytes.data_ptr()));
    fromBlocks(static_cast<const char*>(out.bytes.data_ptr()), out.numbers);
  } else {
    const at::Tensor stored = rows.to(type->type).contiguous();
    out.bytes = stored.view({-1}).view(at::kByte);
    out.numbers = stored.to(at::kFloat);
  }
  refuseUnlessFinite(out.numbers);
  return out;
}

TensorWriter::TensorWriter(const std::string& path)
    : descriptor_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)), path_(path) {
  if (descriptor_ < 0) cannot("write", path);
}

TensorWriter::~TensorWriter() { ::close(descriptor_); }

at::Tensor TensorWriter::write(const StoredTensor& place, int64_t first,
                               const at::Tensor& rows) const {
  const int64_t headRows = place.heads > 0 ? place.shape[0] / place.heads : 0;
  const auto arranged = [&](const at::Tensor& some, bool toTurns) {
    return headRows == 0 ? some : turned(some, headRows, toTurns).reshape(rows.sizes());
  };
  const Encoded stored = encoded(place.name, place.dtype, arranged(rows, true));
  const auto* from = static_cast<const char*>(stored.bytes.data_ptr());
  const int64_t bytes = stored.bytes.numel();
  int64_t at = place.begin + (first == 0 ? 0 : first * (bytes / rows.size(0)));
  for (int64_t left = bytes; left > 0;) {
    const ssize_t put = ::pwrite(descriptor_, from, static_cast<size_t>(left), at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) cannot("write", path_);
    from += put, at += put, left -= put;
  }
  return arranged(stored.numbers, false);
}

void writeSafetensors(const std::string& path, const NamedTensors& tensors, bool isNew) {
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

  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), isNew ? "wb" : "r+b"),
                                             std::fclose);
  const auto put = [&](const void* data, size_t size) {
    if (!file || (size > 0 && std::fwrite(data, 1, size, file.get()) != size)) {
      cannot("write", path);
    }
  };
  std::array<unsigned char, 8> lengthBytes{};
  for (size_t i = 0; i < 8; ++i) lengthBytes[i] = header.size() >> (8 * i) & 0xFF;
  const auto skip = [&](size_t size) {
    if (!file || ::fseeko(file.get(), static_cast<off_t>(size), SEEK_CUR) != 0) {
      cannot("write", path);
    }
  };
  if (isNew) {
    put(lengthBytes.data(), 8);
    put(header.data(), header.size());
  } else {
    skip(8 + header.size());
  }
  for (const auto* item : order) {
    if (item->second.is_meta()) {
      skip(static_cast<size_t>(item->second.numel() * item->second.element_size()));
      continue;
    }
    const at::Tensor flat = item->second.detach().to(at::kCPU).contiguous();
    put(flat.data_ptr(), static_cast<size_t>(flat.numel() * flat.element_size()));
  }
  if (std::fclose(file.release()) != 0) cannot("write", path);
}

}  // namespace acoer
