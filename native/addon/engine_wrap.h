// The class that JavaScript sees as NativeEngine. src/engine/binding.ts says what each method takes
// and gives.
#pragma once

#include "from_js.h"
#include "runner.h"

namespace acoer {

class Inbox;

using Info = Napi::CallbackInfo;

// A method whose work runs on the engine thread: `unpack` reads its arguments and says what is to
// be done there, and how the result is packed.
struct EngineCall {
  const char* name;
  Request (*unpack)(const Info& info, const Fields& args);
};
extern const std::vector<EngineCall> kEngineCalls;  // calls.cpp

class EngineWrap : public Napi::ObjectWrap<EngineWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EngineWrap(const Info& info);
  ~EngineWrap() override;

 private:
  // engine_wrap.cpp: the engine itself
  Napi::Value deviceInfo(const Info& info);
  Napi::Value memory(const Info& info);
  Napi::Value cancel(const Info& info);
  Napi::Value dispose(const Info& info);
  // decoder_calls.cpp
  Napi::Value openDecoder(const Info& info);
  Napi::Value addRequests(const Info& info);
  Napi::Value cancelRequest(const Info& info);
  Napi::Value closeDecoder(const Info& info);

  // Runs the EngineCall in `info`'s data.
  Napi::Value call(const Info& info);
  // Tells V8 how much native memory this object keeps alive. Otherwise a forgotten engine would
  // look a few bytes large to the garbage collector.
  void account(int64_t bytes);

  // Of the decoder that was opened by this job.
  std::shared_ptr<Inbox> inboxOf(int64_t job);

  at::Device device_ = at::kCPU;
  int threads_ = 1;
  int64_t accountedBytes_ = 0;
  std::map<int64_t, std::weak_ptr<Inbox>> inboxes_;  // by job
  std::unique_ptr<Runner> runner_;
};

}  // namespace acoer
