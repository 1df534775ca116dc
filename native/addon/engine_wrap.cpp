#include "engine_wrap.h"

#include "base/device.h"
#include "base/host.h"
#include "kernels/cpu/kernels.h"
#include "to_js.h"

namespace acoer {

Napi::Function EngineWrap::define(Napi::Env env) {
  std::vector<PropertyDescriptor> methods{
      InstanceMethod<&EngineWrap::deviceInfo>("deviceInfo"),
      InstanceMethod<&EngineWrap::memory>("memory"),
      InstanceMethod<&EngineWrap::cancel>("cancel"),
      InstanceMethod<&EngineWrap::dispose>("dispose"),
      InstanceMethod<&EngineWrap::openDecoder>("openDecoder"),
      InstanceMethod<&EngineWrap::addRequests>("addRequests"),
      InstanceMethod<&EngineWrap::cancelRequest>("cancelRequest"),
      InstanceMethod<&EngineWrap::closeDecoder>("closeDecoder"),
  };
  for (const EngineCall& call : kEngineCalls) {
    methods.push_back(
        InstanceMethod(call.name, &EngineWrap::call, napi_default, const_cast<EngineCall*>(&call)));
  }
  return DefineClass(env, "Engine", methods);
}

EngineWrap::EngineWrap(const Info& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const Fields args(info[0], "options");
    const int64_t threads = args.count("threads");
    if (threads > 1024) fail(ErrorCode::kBadArgument, "options.threads must be at most 1024");
    device_ = resolveDevice(args.text("device"));
    kernels::checkKernelChoice();
    threads_ = threads == 0 ? availableCores() : static_cast<int>(threads);
    const bool limited = info[0].As<Napi::Object>().Has("memoryLimitBytes");
    const int64_t limit = limited ? args.count("memoryLimitBytes") : 0;
    prepareMemoryLimit(device_, limit);
    runner_ = std::make_unique<Runner>(info.Env(), device_, threads_, limit);
    return info.Env().Undefined();
  });
}

EngineWrap::~EngineWrap() { account(0); }

void EngineWrap::account(int64_t bytes) {
  if (bytes == accountedBytes_) return;
  Napi::MemoryManagement::AdjustExternalMemory(Env(), bytes - accountedBytes_);
  accountedBytes_ = bytes;
}

Napi::Value EngineWrap::call(const Info& info) {
  const auto* called = static_cast<const EngineCall*>(info.Data());
  return runner_->start(info.This(), [&] {
    Request request = called->unpack(info, Fields(info[0], "args"));
    if (!request.changesMemory) return request;
    request.work = [this, work = std::move(request.work)](CallContext& call) -> Pack {
      Pack pack = work(call);
      return [this, bytes = call.session.bytes(), pack = std::move(pack)](Napi::Env env) {
        if (!runner_->closed()) account(bytes);
        return pack(env);
      };
    };
    return request;
  });
}

Napi::Value EngineWrap::deviceInfo(const Info& info) {
  return guarded(info.Env(), [&] {
    if (runner_->closed()) fail(ErrorCode::kDisposed, "the engine was disposed");
    return toJs(info.Env(), deviceFacts(device_), threads_);
  });
}

Napi::Value EngineWrap::memory(const Info& info) {
  return runner_->start(info.This(), [] {
    return Request{.work = [](CallContext& call) {
      return packed(MemoryFacts{call.session.bytes(), processMemory(),
                                deviceFacts(call.session.device()), call.session.tensorMemory()});
    }};
  });
}

Napi::Value EngineWrap::cancel(const Info& info) {
  return guarded(info.Env(), [&] {
    if (!info[0].IsNumber()) fail(ErrorCode::kBadArgument, "job must be a number");
    runner_->cancel(info[0].As<Napi::Number>().Int64Value());
    return info.Env().Undefined();
  });
}

Napi::Value EngineWrap::dispose(const Info& info) {
  account(0);
  return runner_->dispose(info.This());
}

}  // namespace acoer
