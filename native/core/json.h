// A strict JSON reader for model files: RFC 8259, no duplicate keys, bounded depth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace acoer {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in file order

  Json() = default;
  explicit Json(bool value) : value_(value) {}
  explicit Json(double value) : value_(value) {}
  explicit Json(int64_t value) : value_(value) {}
  explicit Json(std::string value) : value_(std::move(value)) {}
  explicit Json(Array value) : value_(std::move(value)) {}
  explicit Json(Object value) : value_(std::move(value)) {}

  bool isNull() const { return std::holds_alternative<std::monostate>(value_); }
  // Null when the value is of another kind.
  const bool* asBool() const { return std::get_if<bool>(&value_); }
  const int64_t* asInt() const { return std::get_if<int64_t>(&value_); }
  const std::string* asString() const { return std::get_if<std::string>(&value_); }
  const Array* asArray() const { return std::get_if<Array>(&value_); }
  const Object* asObject() const { return std::get_if<Object>(&value_); }
  // True and sets `out` for any number, integers included.
  bool number(double& out) const;
  // The member `key`; null when this is no object or has no such member.
  const Json* find(std::string_view key) const;

 private:
  // Numbers written without fraction and exponent that fit are int64_t, others double.
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Throws kBadFile; `source` names the text in the message (a path).
Json parseJson(std::string_view text, const std::string& source);

// Opens a file for reading and sets `bytes` to its size; the descriptor is the caller's. Throws
// kBadFile, also for what is no regular file (a named pipe would block, a device has no end).
int openRegularFile(const std::string& path, uint64_t& bytes);

// The whole file, up to `maxBytes`. Throws kBadFile.
std::string readTextFile(const std::string& path, size_t maxBytes);
Json readJsonFile(const std::string& path, size_t maxBytes = size_t{64} << 20);

// A JSON string literal, quotes included.
std::string jsonQuote(std::string_view text);

}  // namespace acoer
