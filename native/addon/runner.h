// Runs asynchronous calls from start to finish: arguments are unpacked on the JavaScript thread,
// the work runs on the engine thread, and its result is packed on the JavaScript thread again. Owns
// the promises, keeps the engine object and the event loop alive while calls are pending, and holds
// the catch blocks of all calls.
#pragma once

#include <napi.h>

#include <atomic>
#include <map>
#include <optional>

#include "engine_thread.h"
#include "session.h"

namespace acoer {

// Converts a plain result to a JavaScript value, on the JavaScript thread.
using Pack = std::function<Napi::Value(Napi::Env)>;

// What the work of a call gets on the engine thread.
struct CallContext {
  Session& session;
  const Cancel& cancel;
  // Sends a value to the call's callback.
  std::function<void(Pack)> emit;
  // Sends a value to the call's onProgress, or drops it while JavaScript has not yet taken the one
  // before; empty if there is no onProgress.
  std::function<void(Pack)> report;
};

using Work = std::function<Pack(CallContext&)>;

struct Request {
  int64_t job = 0;
  Napi::FunctionReference callback{};    // receives what the work emits; may be empty
  Napi::FunctionReference onProgress{};  // receives what it reports; may be empty
  Work work;
  bool changesMemory = false;  // V8 is told how much there is before the result is packed
};

class Runner {
 public:
  // A `memoryLimitBytes` of 0 means no limit.
  Runner(Napi::Env env, at::Device device, int threads, int64_t memoryLimitBytes);
  ~Runner();

  // Runs `unpack` now and the work it returns later. An exception from either rejects the promise.
  Napi::Value start(Napi::Value owner, const std::function<Request()>& unpack);
  void cancel(int64_t job) { thread_->cancel(job); }
  bool closed() const { return state_ != State::kOpen; }
  // Cancels all calls, frees everything on the engine thread, and resolves once that thread has
  // ended.
  Napi::Value dispose(Napi::Value owner);

 private:
  enum class State { kOpen, kClosing, kClosed };
  struct Pending {
    Napi::Promise::Deferred deferred;
    Napi::FunctionReference callback, onProgress;
    std::shared_ptr<std::atomic<bool>> reporting;  // a report is on its way; null: no onProgress
    std::optional<Napi::Error> thrown;             // thrown by either function
    std::shared_ptr<Cancel> cancel;
  };
  struct Message {
    enum class Kind { kEvent, kProgress, kResult, kFailure, kEnded } kind;
    uint64_t call = 0;
    Pack pack{};
    std::optional<EngineError> error{};
  };
  static void receive(Napi::Env env, Napi::Function, Runner* runner, Message* message);
  using Channel = Napi::TypedThreadSafeFunction<Runner, Message, receive>;

  void send(Message message);
  std::function<void(Pack)> reporter(uint64_t call,
                                     const std::shared_ptr<std::atomic<bool>>& reporting);
  void runOnEngine(uint64_t call, const Work& work, CallContext context);
  void onMessage(Napi::Env env, Message& message);
  static void tell(Napi::Env env, Pending& pending, const Napi::FunctionReference& function,
                   const Pack& pack);
  void settle(Napi::Env env, Message& message);
  void onEnded(Napi::Env env);
  void hold(Napi::Value owner);
  void letGoWhenIdle();
  // The environment is being torn down: cancel, join the thread, and never touch JavaScript again.
  static void onEnvironmentCleanup(void* runner);

  Napi::Env env_;
  State state_ = State::kOpen;
  Channel channel_;
  std::map<uint64_t, Pending> pending_;
  std::vector<Napi::Promise::Deferred> disposers_;
  uint64_t nextCall_ = 1;
  Napi::ObjectReference owner_;
  std::unique_ptr<EngineThread> thread_;
};

// A JavaScript Error with `code`, and with `request`, `sample` and `token` if the error has a
// place.
Napi::Error toError(Napi::Env env, const EngineError& error);

// For synchronous methods: an exception from `body` becomes a JavaScript exception with a `code`.
Napi::Value guarded(Napi::Env env, const std::function<Napi::Value()>& body);

}  // namespace acoer
