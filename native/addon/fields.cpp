#include <cmath>

#include "from_js.h"

namespace acoer {
namespace {

// JavaScript's Number.isSafeInteger.
bool isWhole(double value) {
  constexpr int64_t kMaxSafeInteger = (int64_t{1} << 53) - 1;
  return value == std::floor(value) && std::abs(value) <= static_cast<double>(kMaxSafeInteger);
}

[[noreturn]] void wrongType(const std::string& what, const char* expected) {
  fail(ErrorCode::kBadArgument, what, " must be ", expected);
}

}  // namespace

Fields::Fields(Napi::Value value, std::string name) : name_(std::move(name)) {
  if (!value.IsObject()) wrongType(name_, "an object");
  object_ = value.As<Napi::Object>();
}

double Fields::number(const char* key) const {
  const Napi::Value value = get(key);
  if (!value.IsNumber()) wrongType(at(key), "a number");
  return value.As<Napi::Number>().DoubleValue();
}

int64_t Fields::integer(const char* key) const {
  const double value = number(key);
  if (!isWhole(value)) wrongType(at(key), "a whole number");
  return static_cast<int64_t>(value);
}

int64_t Fields::count(const char* key) const {
  const int64_t value = integer(key);
  require(value >= 0, at(key), "at least 0", value);
  return value;
}

bool Fields::boolean(const char* key) const {
  const Napi::Value value = get(key);
  if (!value.IsBoolean()) wrongType(at(key), "true or false");
  return value.As<Napi::Boolean>().Value();
}

std::string Fields::text(const char* key) const {
  const Napi::Value value = get(key);
  if (!value.IsString()) wrongType(at(key), "a string");
  std::string text = value.As<Napi::String>().Utf8Value();
  if (text.find('\0') != std::string::npos) wrongType(at(key), "a string without a NUL character");
  return text;
}

uint64_t Fields::seed(const char* key) const {
  const Napi::Value value = get(key);
  if (!value.IsBigInt()) wrongType(at(key), "a bigint");
  bool lossless = false;
  const uint64_t seed = value.As<Napi::BigInt>().Uint64Value(&lossless);
  if (!lossless) wrongType(at(key), "between 0n and 2n ** 64n - 1n");
  return seed;
}

Napi::TypedArray Fields::typed(const char* key, napi_typedarray_type type,
                               const char* typeName) const {
  const Napi::Value value = get(key);
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != type) {
    wrongType(at(key), typeName);
  }
  return value.As<Napi::TypedArray>();
}

std::vector<int32_t> Fields::int32s(const char* key) const {
  const auto array = typed(key, napi_int32_array, "an Int32Array").As<Napi::Int32Array>();
  return {array.Data(), array.Data() + array.ElementLength()};
}

std::vector<double> Fields::doubles(const char* key) const {
  const auto array = typed(key, napi_float64_array, "a Float64Array").As<Napi::Float64Array>();
  return {array.Data(), array.Data() + array.ElementLength()};
}

Napi::Array Fields::array(const char* key, const char* typeName) const {
  const Napi::Value value = get(key);
  if (!value.IsArray()) wrongType(at(key), typeName);
  return value.As<Napi::Array>();
}

// `read` appends an entry, or returns false if it is of another type.
template <class T, class Read>
std::vector<T> Fields::list(const char* key, const char* typeName, const Read& read) const {
  const Napi::Array array = this->array(key, typeName);
  std::vector<T> list;
  for (uint32_t i = 0; i < array.Length(); i++) {
    if (!read(Napi::Value(array.Get(i)), list)) wrongType(at(key), typeName);
  }
  return list;
}

std::vector<std::string> Fields::texts(const char* key) const {
  return list<std::string>(key, "an array of strings", [](Napi::Value entry, auto& texts) {
    if (entry.IsString()) texts.push_back(entry.As<Napi::String>().Utf8Value());
    return entry.IsString();
  });
}

std::vector<int64_t> Fields::sizes(const char* key) const {
  return list<int64_t>(key, "an array of sizes", [](Napi::Value entry, auto& sizes) {
    const double size = entry.IsNumber() ? entry.As<Napi::Number>().DoubleValue() : -1;
    const bool isSize = size >= 0 && isWhole(size);
    if (isSize) sizes.push_back(static_cast<int64_t>(size));
    return isSize;
  });
}

std::vector<std::optional<int64_t>> Fields::handles(const char* key) const {
  using Handle = std::optional<int64_t>;
  return list<Handle>(key, "an array of handles", [](Napi::Value entry, auto& handles) {
    if (!entry.IsNumber() && !entry.IsNull()) return false;
    handles.push_back(entry.IsNull() ? Handle() : entry.As<Napi::Number>().Int64Value());
    return true;
  });
}

bool Fields::isNull(const char* key) const { return get(key).IsNull(); }

Fields Fields::object(const char* key) const { return Fields(get(key), at(key)); }

std::vector<Fields> Fields::objects(const char* key) const {
  const Napi::Array array = this->array(key, "an array");
  std::vector<Fields> objects;
  for (uint32_t i = 0; i < array.Length(); i++) {
    objects.emplace_back(array.Get(i), at(key) + "[" + std::to_string(i) + "]");
  }
  return objects;
}

}  // namespace acoer
