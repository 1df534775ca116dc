#include "safetensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "json.h"

namespace acoer {

namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's limit
constexpr uint64_t kReadBlock = uint64_t{4} << 20;

struct DtypeName {
  const char* name;
  uint64_t bits;
  at::ScalarType type;  // Undefined: a type this engine has no use for
};

constexpr std::array<DtypeName, 21> kDtypes{{{"F64", 64, at::kDouble},
                                             {"F32", 32, at::kFloat},
                                             {"BF16", 16, at::kBFloat16},
                                             {"F16", 16, at::kHalf},
                                             {"I64", 64, at::kLong},
                                             {"I32", 32, at::kInt},
                                             {"I16", 16, at::kShort},
                                             {"I8", 8, at::kChar},
                                             {"U8", 8, at::kByte},
                                             {"BOOL", 8, at::kBool},
                                             {"U64", 64, at::ScalarType::Undefined},
                                             {"U32", 32, at::ScalarType::Undefined},
                                             {"U16", 16, at::ScalarType::Undefined},
                                             {"F8_E5M2", 8, at::ScalarType::Undefined},
                                             {"F8_E4M3", 8, at::ScalarType::Undefined},
                                             {"F8_E8M0", 8, at::ScalarType::Undefined},
                                             {"C64", 64, at::ScalarType::Undefined},
                                             {"F6_E2M3", 6, at::ScalarType::Undefined},
                                             {"F6_E3M2", 6, at::ScalarType::Undefined},
                                             {"F4", 4, at::ScalarType::Undefined},
                                             {"C128", 128, at::ScalarType::Undefined}}};

const DtypeName* findDtype(const std::string& name) {
  for (const auto& entry : kDtypes) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

const char* dtypeName(at::ScalarType type) {
  for (const auto& entry : kDtypes) {
    if (entry.type == type) return entry.name;
  }
  fail(ErrorCode::kInternal, std::string("no safetensors name for ") + c10::toString(type));
}

SafetensorsEntry parseEntry(const Json& value, const std::string& where, uint64_t dataStart) {
  const auto bad = [&](const std::string& what) { fail(ErrorCode::kBadFile, where + what); };
  const Json *dtype = value.find("dtype"), *shape = value.find("shape"),
             *offsets = value.find("data_offsets");
  if (!dtype || !dtype->asString() || !shape || !shape->asArray() || !offsets ||
      !offsets->asArray() || offsets->asArray()->size() != 2) {
    bad(" lacks dtype, shape or data_offsets; the file is damaged");
  }
  SafetensorsEntry entry;
  entry.dtypeName = *dtype->asString();
  const DtypeName* known = findDtype(entry.dtypeName);
  if (!known) bad(" has the unknown type " + entry.dtypeName);
  uint64_t bits = known->bits;
  for (const Json& item : *shape->asArray()) {
    const int64_t* size = item.asInt();
    if (!size || *size < 0) bad(" has a shape that is not a list of sizes");
    entry.shape.push_back(*size);
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(*size), &bits)) bad(" is too large");
  }
  const int64_t *begin = (*offsets->asArray())[0].asInt(), *end = (*offsets->asArray())[1].asInt();
  if (!begin || !end || *begin < 0 || *end < *begin) bad(" has impossible data_offsets");
  if (bits % 8 != 0 || static_cast<uint64_t>(*end - *begin) != bits / 8) {
    bad(" holds " + std::to_string(*end - *begin) + " bytes, but " + entry.dtypeName + " " +
        shapeText(entry.shape) + " needs " + std::to_string(bits / 8) + "; the file is damaged");
  }
  entry.begin = dataStart + static_cast<uint64_t>(*begin);
  entry.end = dataStart + static_cast<uint64_t>(*end);
  return entry;
}

}  // namespace

std::string shapeText(c10::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  uint64_t fileSize = 0;
  file_ = openRegularFile(path, fileSize);
  try {
    const Cancel never;
    std::array<unsigned char, 8> lengthBytes{};
    if (fileSize < 8) fail(ErrorCode::kBadFile, path + " is too short to be a safetensors file");
    readBytes(0, 8, lengthBytes.data(), never);
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | lengthBytes[static_cast<size_t>(i)];
    if (length > kMaxHeaderBytes || length > fileSize - 8) {
      fail(ErrorCode::kBadFile, path + " is not a safetensors file or is cut off: its header " +
                                    "would be " + std::to_string(length) + " bytes of " +
                                    std::to_string(fileSize));
    }
    std::string header(length, '\0');
    readBytes(8, length, header.data(), never);
    parseHeader(header, 8 + length, fileSize);
  } catch (...) {
    ::close(file_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(file_); }

void SafetensorsFile::parseHeader(const std::string& header, uint64_t dataStart,
                                  uint64_t fileSize) {
  const Json root = parseJson(header, "the header of " + path_);
  if (!root.asObject()) fail(ErrorCode::kBadFile, "the header of " + path_ + " is no object");
  for (const auto& [name, value] : *root.asObject()) {
    if (name != "__metadata__") {
      entries_.emplace(name, parseEntry(value, path_ + ": tensor " + name, dataStart));
      continue;
    }
    if (!value.asObject()) fail(ErrorCode::kBadFile, path_ + ": __metadata__ is no object");
    for (const auto& [key, text] : *value.asObject()) {
      if (!text.asString()) fail(ErrorCode::kBadFile, path_ + ": __metadata__ holds no strings");
      metadata_.emplace(key, *text.asString());
    }
  }
  checkLayout(dataStart, fileSize);
}

void SafetensorsFile::checkLayout(uint64_t dataStart, uint64_t fileSize) const {
  std::vector<std::pair<const std::string*, const SafetensorsEntry*>> order;
  for (const auto& [name, entry] : entries_) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t at = dataStart;
  for (const auto& [name, entry] : order) {
    if (entry->begin != at) {
      fail(ErrorCode::kBadFile, path_ + ": tensor " + *name + " starts at byte " +
                                    std::to_string(entry->begin - dataStart) +
                                    " of the data instead of " + std::to_string(at - dataStart) +
                                    "; the file is damaged");
    }
    at = entry->end;
  }
  if (at != fileSize) {
    fail(ErrorCode::kBadFile, path_ + " is " + std::to_string(fileSize) +
                                  " bytes long but its header describes " + std::to_string(at) +
                                  "; the file is cut off or damaged");
  }
}

void SafetensorsFile::readBytes(uint64_t from, uint64_t count, void* out,
                                const Cancel& cancel) const {
  auto* bytes = static_cast<char*>(out);
  while (count > 0) {
    cancel.check();
    const ssize_t got =
        ::pread(file_, bytes, std::min(count, kReadBlock), static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(ErrorCode::kBadFile, "cannot read " + path_ + ": " + std::strerror(errno));
    if (got == 0) fail(ErrorCode::kBadFile, path_ + " became shorter while it was read");
    bytes += got;
    from += static_cast<uint64_t>(got);
    count -= static_cast<uint64_t>(got);
  }
}

const SafetensorsEntry& SafetensorsFile::check(const std::string& name,
                                               c10::ArrayRef<int64_t> shape,
                                               at::ScalarType wanted) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    fail(ErrorCode::kBadFile, path_ + " lacks the tensor " + name);
  }
  const SafetensorsEntry& entry = found->second;
  const at::ScalarType type = findDtype(entry.dtypeName)->type;
  const bool usable = type != at::ScalarType::Undefined &&
                      (wanted == at::kLong ? type == at::kLong : c10::isFloatingType(type));
  if (!usable) {
    fail(ErrorCode::kBadFile, path_ + ": tensor " + name + " has type " + entry.dtypeName +
                                  "; F64, F32, F16 or BF16 is needed");
  }
  if (shape != c10::ArrayRef<int64_t>(entry.shape)) {
    fail(ErrorCode::kBadShape, path_ + ": tensor " + name + " has shape " + shapeText(entry.shape) +
                                   ", expected " + shapeText(shape));
  }
  return entry;
}

void SafetensorsFile::read(const std::string& name, const at::Tensor& out,
                           const Cancel& cancel) const {
  const SafetensorsEntry& entry = check(name, out.sizes(), out.scalar_type());
  const at::ScalarType type = findDtype(entry.dtypeName)->type;
  const bool direct = type == out.scalar_type() && out.is_contiguous();
  const at::Tensor stored = direct ? out : at::empty(entry.shape, at::TensorOptions().dtype(type));
  const uint64_t bytes = entry.end - entry.begin;
  auto* to = static_cast<char*>(stored.data_ptr());
  // The copy out of the page cache is as fast as the cores that make it.
  const auto blocks = static_cast<int64_t>((bytes + kReadBlock - 1) / kReadBlock);
  at::parallel_for(0, blocks, 1, [&](int64_t first, int64_t last) {
    const uint64_t from = static_cast<uint64_t>(first) * kReadBlock;
    const uint64_t until = std::min(bytes, static_cast<uint64_t>(last) * kReadBlock);
    readBytes(entry.begin + from, until - from, to + from, cancel);
  });
  if (!direct) out.copy_(stored);
}

void writeSafetensors(const std::string& path,
                      const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  std::vector<const std::pair<std::string, at::Tensor>*> order;
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
    header += "," + jsonQuote(item->first) + ":{\"dtype\":\"" + dtypeName(value.scalar_type()) +
              "\",\"shape\":" + shapeText(value.sizes()) + ",\"data_offsets\":[" +
              std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');

  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  const auto put = [&](const void* data, size_t size) {
    if (!file || (size > 0 && std::fwrite(data, 1, size, file.get()) != size)) {
      fail(ErrorCode::kBadFile, "cannot write " + path + ": " + std::strerror(errno));
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
  if (std::fclose(file.release()) != 0) {
    fail(ErrorCode::kBadFile, "cannot write " + path + ": " + std::strerror(errno));
  }
}

}  // namespace acoer
