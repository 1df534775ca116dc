// The exports of acoer.node: NativeAddon in src/engine/binding.ts.
#include <torch/version.h>
#include <unistd.h>

#include "base/device.h"
#include "engine_wrap.h"

namespace acoer {
namespace {

Napi::Value buildInfo(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    auto object = Napi::Object::New(env);
    object["libtorch"] = TORCH_VERSION;
    const std::string cuda = cudaVersion();
    object["cuda"] = cuda.empty() ? env.Null() : Napi::Value(Napi::String::New(env, cuda));
    object["cxxFlags"] = ACOER_CXX_FLAGS;
    return object;
  });
}

// On process.exit() or an uncaught exception in the middle of a call, engine threads must end while
// the static objects of libtorch and oneDNN still exist: during exit() those created on first use
// are destroyed before a handler of ours could run. The engines of a worker thread end with its own
// clean-up hooks.
void stopEnginesBeforeExit(Napi::Env env) {
  const bool isMainThread = ::gettid() == ::getpid();
  if (!isMainThread) return;
  auto process = env.Global().Get("process").As<Napi::Object>();
  const auto stop = [](const Napi::CallbackInfo&) { stopAllEngines(); };
  process.Get("once").As<Napi::Function>().Call(
      process, {Napi::String::New(env, "exit"), Napi::Function::New(env, stop, "stopEngines")});
}

// Runs no exit handler and waits for no thread, so that a stuck engine cannot delay it.
Napi::Value exitNow(const Napi::CallbackInfo& info) {
  ::_exit(info[0].IsNumber() ? info[0].As<Napi::Number>().Int32Value() : 1);
}

}  // namespace
}  // namespace acoer

static Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  exports["buildInfo"] = Napi::Function::New<acoer::buildInfo>(env, "buildInfo");
  exports["exitNow"] = Napi::Function::New<acoer::exitNow>(env, "exitNow");
  exports["Engine"] = acoer::EngineWrap::define(env);
  acoer::stopEnginesBeforeExit(env);
  return exports;
}

NODE_API_MODULE(acoer, initialise)
