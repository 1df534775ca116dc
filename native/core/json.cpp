#include "json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_set>

#include "error.h"

namespace acoer {

namespace {

constexpr int kMaxDepth = 64;
// A value takes up to some 200 bytes of memory and as little as 2 of the text.
constexpr size_t kMaxValues = 1'000'000;

void appendUtf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  Json document() {
    Json value = parseValue(0);
    skipSpace();
    if (at_ != text_.size()) bad("text after the value");
    return value;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::kBadFile,
         source_ + " is not valid JSON: " + what + " at byte " + std::to_string(at_));
  }

  void skipSpace() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_]) ++at_;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void expect(char c) {
    if (at_ >= text_.size()) bad("it ends too early");
    if (text_[at_] != c) bad(std::string("expected '") + c + "'");
    ++at_;
  }

  Json parseValue(int depth) {
    if (depth > kMaxDepth) bad("nested deeper than " + std::to_string(kMaxDepth));
    if (++values_ > kMaxValues) bad("more than " + std::to_string(kMaxValues) + " values");
    skipSpace();
    if (at_ >= text_.size()) bad("it ends too early");
    switch (text_[at_]) {
      case '{':
        return parseObject(depth);
      case '[':
        return parseArray(depth);
      case '"':
        return Json(parseString());
      case 't':
        return word("true", Json(true));
      case 'f':
        return word("false", Json(false));
      case 'n':
        return word("null", Json());
      default:
        return parseNumber();
    }
  }

  Json word(std::string_view name, Json value) {
    if (text_.substr(at_, name.size()) != name) bad("unknown word");
    at_ += name.size();
    return value;
  }

  Json parseObject(int depth) {
    expect('{');
    Json::Object members;
    std::unordered_set<std::string> seen;
    skipSpace();
    if (peek() == '}') return ++at_, Json(std::move(members));
    for (;;) {
      skipSpace();
      std::string key = parseString();
      if (!seen.insert(key).second) bad("the key " + jsonQuote(key) + " appears twice");
      skipSpace();
      expect(':');
      members.emplace_back(std::move(key), parseValue(depth + 1));
      skipSpace();
      if (peek() == '}') break;
      expect(',');
    }
    ++at_;
    return Json(std::move(members));
  }

  Json parseArray(int depth) {
    expect('[');
    Json::Array items;
    skipSpace();
    if (peek() == ']') return ++at_, Json(std::move(items));
    for (;;) {
      items.push_back(parseValue(depth + 1));
      skipSpace();
      if (peek() == ']') break;
      expect(',');
    }
    ++at_;
    return Json(std::move(items));
  }

  uint32_t hex4() {
    if (text_.size() - at_ < 4) bad("it ends too early");
    uint32_t value = 0;
    const char* begin = text_.data() + at_;
    auto [end, error] = std::from_chars(begin, begin + 4, value, 16);
    if (error != std::errc() || end != begin + 4) bad("bad \\u escape");
    at_ += 4;
    return value;
  }

  void parseEscape(std::string& out) {
    if (at_ >= text_.size()) bad("it ends too early");
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t place = kFrom.find(c); place != std::string_view::npos) {
      out += kTo[place];
      return;
    }
    if (c != 'u') bad("unknown escape");
    uint32_t code = hex4();
    if (code >= 0xDC00 && code < 0xE000) bad("lone surrogate");
    if (code >= 0xD800 && code < 0xDC00) {
      expect('\\');
      expect('u');
      const uint32_t low = hex4();
      if (low < 0xDC00 || low >= 0xE000) bad("lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    appendUtf8(out, code);
  }

  std::string parseString() {
    expect('"');
    std::string out;
    for (;;) {
      if (at_ >= text_.size()) bad("it ends inside a string");
      const char c = text_[at_++];
      if (c == '"') return out;
      if (static_cast<unsigned char>(c) < 0x20) bad("control character in a string");
      if (c == '\\') {
        parseEscape(out);
      } else {
        out += c;
      }
    }
  }

  bool digits() {
    const size_t from = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > from;
  }

  Json parseNumber() {
    const size_t from = at_;
    if (peek() == '-') ++at_;
    const size_t first = at_;
    if (!digits()) bad("expected a value");
    if (text_[first] == '0' && at_ > first + 1) bad("a number with a leading zero");
    bool integer = true;
    if (peek() == '.') {
      integer = false;
      ++at_;
      if (!digits()) bad("expected a digit");
    }
    if (peek() == 'e' || peek() == 'E') {
      integer = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) bad("expected a digit");
    }
    const char *begin = text_.data() + from, *end = text_.data() + at_;
    if (int64_t whole = 0; integer && std::from_chars(begin, end, whole).ec == std::errc()) {
      return Json(whole);
    }
    double value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) bad("a number out of range");
    return Json(value);
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0;
  size_t values_ = 0;
};

}  // namespace

bool Json::number(double& out) const {
  if (const auto* whole = asInt()) return out = static_cast<double>(*whole), true;
  if (const auto* real = std::get_if<double>(&value_)) return out = *real, true;
  return false;
}

const Json* Json::find(std::string_view key) const {
  if (const Object* members = asObject()) {
    for (const auto& [name, value] : *members) {
      if (name == key) return &value;
    }
  }
  return nullptr;
}

Json parseJson(std::string_view text, const std::string& source) {
  return Parser(text, source).document();
}

int openRegularFile(const std::string& path, uint64_t& bytes) {
  // Without O_NONBLOCK open() waits for the writer of a named pipe.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(ErrorCode::kBadFile, "cannot open " + path + ": " + std::strerror(errno));
  struct stat info{};
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file);
    fail(ErrorCode::kBadFile, path + " is not a regular file");
  }
  bytes = static_cast<uint64_t>(info.st_size);
  return file;
}

std::string readTextFile(const std::string& path, size_t maxBytes) {
  uint64_t fileSize = 0;
  const int handle = openRegularFile(path, fileSize);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(::fdopen(handle, "rb"), std::fclose);
  if (!file) {
    ::close(handle);
    fail(ErrorCode::kBadFile, "cannot open " + path + ": " + std::strerror(errno));
  }
  std::string text;
  std::vector<char> block(1 << 16);
  while (const size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), got);
    if (text.size() > maxBytes) {
      fail(ErrorCode::kBadFile, path + " is larger than " + std::to_string(maxBytes) +
                                    " bytes, which this reader does not accept");
    }
  }
  if (std::ferror(file.get())) {
    fail(ErrorCode::kBadFile, "cannot read " + path + ": " + std::strerror(errno));
  }
  return text;
}

Json readJsonFile(const std::string& path, size_t maxBytes) {
  return parseJson(readTextFile(path, maxBytes), path);
}

std::string jsonQuote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace acoer
