// JavaScript arguments as plain structs. Everything is copied; each failure is one sentence that
// names the field. Only JavaScript types are checked here: which values are allowed is the core's
// business.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generate.h"
#include "napi_setup.h"
#include "packed.h"

namespace acoer {

// Reads the named fields of one object. `name` is how messages call it, e.g. "requests[2]".
class Fields {
 public:
  Fields(Napi::Value value, std::string name);

  double number(const char* key) const;
  int64_t integer(const char* key) const;
  int64_t count(const char* key) const;  // an integer from 0 on
  bool boolean(const char* key) const;
  std::string text(const char* key) const;
  uint64_t seed(const char* key) const;  // bigint
  std::vector<int32_t> int32s(const char* key) const;
  std::vector<double> doubles(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  std::vector<int64_t> sizes(const char* key) const;  // an array of whole numbers from 0
  bool isNull(const char* key) const;
  Fields object(const char* key) const;
  std::vector<Fields> objects(const char* key) const;

  // "<name>.<key>", for messages.
  std::string at(const char* key) const { return name_ + "." + key; }

 private:
  Napi::Value get(const char* key) const { return object_.Get(key); }
  Napi::TypedArray typed(const char* key, napi_typedarray_type type, const char* typeName) const;

  Napi::Object object_;
  std::string name_;
};

// A request with its policy still as a handle: handles are looked up on the engine thread.
struct HandledRequest {
  GenerateRequest request;
  std::optional<int64_t> policy;
};

std::optional<int64_t> readHandle(const Fields& fields, const char* key);
at::ScalarType readDtype(const Fields& fields, const char* key);
PackedSequences readSequences(const Fields& fields);
std::optional<DropoutKey> readDropout(const Fields& fields);  // of dropoutSeed, which may be null
PolicyOptions readPolicyOptions(const Fields& fields);
HandledRequest readRequest(const Fields& fields);
ModelSpec readModelSpec(const Fields& fields);
TensorTable readTensorTable(const Fields& fields);

}  // namespace acoer
