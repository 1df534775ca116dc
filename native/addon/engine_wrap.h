// The class that JavaScript sees as NativeEngine (src/engine/binding.ts). Each method unpacks its
// arguments and defines the work for the engine thread and how its result is packed.
#pragma once

#include "from_js.h"
#include "runner.h"

namespace acoer {

class Inbox;

class EngineWrap : public Napi::ObjectWrap<EngineWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EngineWrap(const Napi::CallbackInfo& info);
  ~EngineWrap() override;

 private:
  using Info = Napi::CallbackInfo;

  // engine_wrap.cpp: the engine itself
  Napi::Value deviceInfo(const Info& info);
  Napi::Value memory(const Info& info);
  Napi::Value measureCeilings(const Info& info);
  Napi::Value cancel(const Info& info);
  Napi::Value dispose(const Info& info);
  // model_calls.cpp
  Napi::Value loadModel(const Info& info);
  Napi::Value disposeModel(const Info& info);
  Napi::Value generate(const Info& info);
  Napi::Value score(const Info& info);
  // decoder_calls.cpp
  Napi::Value openDecoder(const Info& info);
  Napi::Value addRequests(const Info& info);
  Napi::Value cancelRequest(const Info& info);
  Napi::Value closeDecoder(const Info& info);
  // policy_calls.cpp
  Napi::Value createPolicy(const Info& info);
  Napi::Value loadAdapter(const Info& info);
  Napi::Value disposePolicy(const Info& info);
  Napi::Value forward(const Info& info);
  Napi::Value backward(const Info& info);
  Napi::Value step(const Info& info);
  Napi::Value zeroGradients(const Info& info);
  Napi::Value gradients(const Info& info);
  Napi::Value savePolicy(const Info& info);
  Napi::Value saveOptimizer(const Info& info);
  Napi::Value restorePolicy(const Info& info);
  Napi::Value restoreOptimizer(const Info& info);

  Napi::Value start(const Info& info, const std::function<Request(const Fields&)>& unpack);
  // Shared by restorePolicy and restoreOptimizer.
  Napi::Value restore(const Info& info, void (*act)(Policy&, const TensorTable&));
  // Tells V8 how much native memory this object keeps alive. Otherwise a forgotten engine would
  // look a few bytes large to the garbage collector.
  void account(int64_t bytes);
  // Wraps `pack` so that the memory the session holds now is accounted for first.
  Pack accounted(const Session& session, Pack pack);

  // Of the decoder that was opened by this job.
  std::shared_ptr<Inbox> inboxOf(int64_t job);

  at::Device device_ = at::kCPU;
  int threads_ = 1;
  int64_t accountedBytes_ = 0;
  std::map<int64_t, std::weak_ptr<Inbox>> inboxes_;  // by job
  std::unique_ptr<Runner> runner_;
};

}  // namespace acoer
