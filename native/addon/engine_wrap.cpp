#include "engine_wrap.h"

#include "base/ceilings.h"
#include "base/device.h"
#include "base/host.h"
#include "from_js.h"
#include "kernels/cpu/kernels.h"
#include "to_js.h"

namespace acoer {

// class Engine {
//   constructor(args: { device: string; threads: number; memoryLimitBytes?: number })
// }
Napi::Function EngineWrap::define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {
                         InstanceMethod<&EngineWrap::deviceInfo>("deviceInfo"),
                         InstanceMethod<&EngineWrap::loadModel>("loadModel"),
                         InstanceMethod<&EngineWrap::createPolicy>("createPolicy"),
                         InstanceMethod<&EngineWrap::loadAdapter>("loadAdapter"),
                         InstanceMethod<&EngineWrap::generate>("generate"),
                         InstanceMethod<&EngineWrap::openDecoder>("openDecoder"),
                         InstanceMethod<&EngineWrap::addRequests>("addRequests"),
                         InstanceMethod<&EngineWrap::cancelRequest>("cancelRequest"),
                         InstanceMethod<&EngineWrap::closeDecoder>("closeDecoder"),
                         InstanceMethod<&EngineWrap::score>("score"),
                         InstanceMethod<&EngineWrap::forward>("forward"),
                         InstanceMethod<&EngineWrap::backward>("backward"),
                         InstanceMethod<&EngineWrap::step>("step"),
                         InstanceMethod<&EngineWrap::zeroGradients>("zeroGradients"),
                         InstanceMethod<&EngineWrap::gradients>("gradients"),
                         InstanceMethod<&EngineWrap::savePolicy>("savePolicy"),
                         InstanceMethod<&EngineWrap::saveOptimizer>("saveOptimizer"),
                         InstanceMethod<&EngineWrap::restorePolicy>("restorePolicy"),
                         InstanceMethod<&EngineWrap::restoreOptimizer>("restoreOptimizer"),
                         InstanceMethod<&EngineWrap::disposePolicy>("disposePolicy"),
                         InstanceMethod<&EngineWrap::disposeModel>("disposeModel"),
                         InstanceMethod<&EngineWrap::memory>("memory"),
                         InstanceMethod<&EngineWrap::measureCeilings>("measureCeilings"),
                         InstanceMethod<&EngineWrap::cancel>("cancel"),
                         InstanceMethod<&EngineWrap::dispose>("dispose"),
                     });
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

Pack EngineWrap::accounted(const Session& session, Pack pack) {
  return [this, bytes = session.bytes(), pack = std::move(pack)](Napi::Env env) {
    if (!runner_->closed()) account(bytes);
    return pack(env);
  };
}

Napi::Value EngineWrap::start(const Info& info,
                              const std::function<Request(const Fields&)>& unpack) {
  return runner_->start(info.This().As<Napi::Object>(),
                        [&] { return unpack(Fields(info[0], "args")); });
}

// deviceInfo(): NativeDeviceInfo
Napi::Value EngineWrap::deviceInfo(const Info& info) {
  return guarded(info.Env(), [&] {
    if (runner_->closed()) fail(ErrorCode::kDisposed, "the engine was disposed");
    return toJs(info.Env(), deviceFacts(device_), threads_);
  });
}

// memory(): Promise<NativeMemory>
Napi::Value EngineWrap::memory(const Info& info) {
  return runner_->start(info.This().As<Napi::Object>(), [] {
    return Request{.work = [](CallContext& call) -> Pack {
      MemoryFacts facts{call.session.bytes(), processMemory(), deviceFacts(call.session.device()),
                        call.session.tensorMemory()};
      return [facts](Napi::Env env) { return toJs(env, facts); };
    }};
  });
}

// measureCeilings(args: { dtype: Dtype; job: number }): Promise<NativeCeilings>
Napi::Value EngineWrap::measureCeilings(const Info& info) {
  return start(info, [](const Fields& args) {
    const at::ScalarType dtype = readDtype(args, "dtype");
    return Request{.job = args.count("job"), .work = [dtype](CallContext& call) -> Pack {
                     const Ceilings ceilings =
                         acoer::measureCeilings(call.session.device(), dtype, call.cancel);
                     return [ceilings](Napi::Env env) { return toJs(env, ceilings); };
                   }};
  });
}

// cancel(job: number): void
Napi::Value EngineWrap::cancel(const Info& info) {
  return guarded(info.Env(), [&] {
    if (!info[0].IsNumber()) fail(ErrorCode::kBadArgument, "job must be a number");
    runner_->cancel(info[0].As<Napi::Number>().Int64Value());
    return info.Env().Undefined();
  });
}

// dispose(): Promise<void>
Napi::Value EngineWrap::dispose(const Info& info) {
  account(0);
  return runner_->dispose(info.This().As<Napi::Object>());
}

}  // namespace acoer
