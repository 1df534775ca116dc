#include "runner.h"

#include <c10/util/Exception.h>

#include <new>

#include "base/memory.h"
#include "kernels/gpu/kernels.h"

namespace acoer {
namespace {

EngineError disposedError() {
  return {ErrorCode::kDisposed, "the engine was disposed; create a new one with createEngine()"};
}

// Behind its first line libtorch explains how to debug its own kernels.
std::string describeAcceleratorError(const c10::AcceleratorError& error) {
  const std::string text = error.what_without_backtrace();
  const std::string advice = afterFatalGpuError(error.get_error_code());
  return advice.empty() ? text : text.substr(0, text.find('\n')) + advice;
}

// Translates the exception being handled, whatever it is; call it only inside a catch block.
EngineError currentError() {
  const bool memory = handlingOutOfMemory();
  const auto describe = [memory](ErrorCode otherwise, const std::string& message) {
    return memory ? EngineError(ErrorCode::kOutOfMemory, "out of memory: " + message)
                  : EngineError(otherwise, message);
  };
  try {
    throw;
  } catch (const EngineError& error) {
    return error;
  } catch (const c10::AcceleratorError& error) {
    return describe(ErrorCode::kDevice, describeAcceleratorError(error));
  } catch (const c10::Error& error) {
    return describe(ErrorCode::kInternal, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return describe(ErrorCode::kOutOfMemory,
                    "the machine does not have enough memory for this call");
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "native code threw something that is not an exception"};
  }
}

// The same on the engine thread. After running out of memory, the memory that the call has freed is
// returned to the system first, so that a smaller call can succeed.
EngineError errorOnEngine(const Session& session) {
  const EngineError error = currentError();
  if (error.code() != ErrorCode::kOutOfMemory) return error;
  try {
    releaseFreedMemory(session.device());
    return error;
  } catch (...) {
    return currentError();  // the device itself failed, which matters more
  }
}

}  // namespace

Napi::Error toError(Napi::Env env, const EngineError& error) {
  Napi::Error jsError = Napi::Error::New(env, error.what());
  jsError.Set("code", Napi::String::New(env, errorCodeName(error.code())));
  if (const auto& place = error.place()) {
    const auto number = [env](int64_t value) {
      return Napi::Number::New(env, static_cast<double>(value));
    };
    jsError.Set("request", number(place->request));
    jsError.Set("sample", number(place->sample));
    jsError.Set("token", number(place->token));
  }
  return jsError;
}

Napi::Value guarded(Napi::Env env, const std::function<Napi::Value()>& body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw toError(env, currentError());
  }
}

Runner::Runner(Napi::Env env, at::Device device, int threads, int64_t memoryLimitBytes)
    : env_(env) {
  channel_ = Channel::New(env, "acoer engine", 0, 1, this);
  channel_.Unref(env);
  thread_ = std::make_unique<EngineThread>(
      threads,
      [device, memoryLimitBytes] { return std::make_unique<Session>(device, memoryLimitBytes); },
      [this] { send({.kind = Message::Kind::kEnded}); });
  // Registered after the channel's own hook, so that it runs first: hooks run in reverse order.
  napi_add_env_cleanup_hook(env, onEnvironmentCleanup, this);
}

Runner::~Runner() {
  if (state_ == State::kClosed) return;
  napi_remove_env_cleanup_hook(env_, onEnvironmentCleanup, this);
  onEnvironmentCleanup(this);
}

void Runner::onEnvironmentCleanup(void* data) {
  auto* runner = static_cast<Runner*>(data);
  if (runner->state_ == State::kClosed) return;
  runner->thread_->stop();
  runner->channel_.Abort();
  runner->state_ = State::kClosed;
}

Napi::Value Runner::start(Napi::Value owner, const std::function<Request()>& unpack) {
  auto deferred = Napi::Promise::Deferred::New(env_);
  try {
    if (closed()) throw disposedError();
    Request request = unpack();
    const uint64_t call = nextCall_++;
    std::shared_ptr<std::atomic<bool>> reporting;
    if (!request.onProgress.IsEmpty()) reporting = std::make_shared<std::atomic<bool>>(false);
    const auto emit = [this, call](Pack pack) {
      send({.kind = Message::Kind::kEvent, .call = call, .pack = std::move(pack)});
    };
    Job job{.number = request.job,
            .run = [this, call, emit, report = reporter(call, reporting),
                    work = std::move(request.work)](Session& session, const Cancel& cancel) {
              runOnEngine(call, work, {session, cancel, emit, report});
            }};
    hold(owner);
    pending_.emplace(call,
                     Pending{deferred, std::move(request.callback), std::move(request.onProgress),
                             std::move(reporting), std::nullopt, job.cancel});
    thread_->submit(std::move(job));
  } catch (const Napi::Error& error) {
    deferred.Reject(error.Value());
  } catch (...) {
    deferred.Reject(toError(env_, currentError()).Value());
  }
  return deferred.Promise();
}

std::function<void(Pack)> Runner::reporter(uint64_t call,
                                           const std::shared_ptr<std::atomic<bool>>& reporting) {
  if (reporting == nullptr) return {};
  return [this, call, reporting](Pack pack) {
    if (reporting->exchange(true)) return;
    send({.kind = Message::Kind::kProgress, .call = call, .pack = std::move(pack)});
  };
}

void Runner::runOnEngine(uint64_t call, const Work& work, CallContext context) {
  try {
    context.cancel.check();
    Pack pack = work(context);
    send({.kind = Message::Kind::kResult, .call = call, .pack = std::move(pack)});
  } catch (...) {
    send({.kind = Message::Kind::kFailure, .call = call, .error = errorOnEngine(context.session)});
  }
}

void Runner::send(Message message) {
  auto owned = std::make_unique<Message>(std::move(message));
  // Fails only while the environment is closing, when there is nobody left to tell.
  if (channel_.BlockingCall(owned.get()) == napi_ok) owned.release();
}

void Runner::receive(Napi::Env env, Napi::Function, Runner* runner, Message* message) {
  const std::unique_ptr<Message> owned(message);
  // No environment: it is being torn down, and the runner may be gone already.
  if (env == nullptr) return;
  try {
    runner->onMessage(env, *owned);
  } catch (const Napi::Error&) {
    // After terminate() no JavaScript may run: promises can be neither settled nor observed.
  }
}

void Runner::onMessage(Napi::Env env, Message& message) {
  if (message.kind == Message::Kind::kEnded) return onEnded(env);
  const auto found = pending_.find(message.call);
  if (found == pending_.end()) return;
  Pending& pending = found->second;
  if (message.kind == Message::Kind::kEvent) {
    return tell(env, pending, pending.callback, message.pack);
  }
  if (message.kind == Message::Kind::kProgress) {
    tell(env, pending, pending.onProgress, message.pack);
    pending.reporting->store(false);
    return;
  }
  settle(env, message);
}

void Runner::tell(Napi::Env env, Pending& pending, const Napi::FunctionReference& function,
                  const Pack& pack) {
  if (pending.thrown || function.IsEmpty()) return;
  try {
    function.Call({pack(env)});
  } catch (const Napi::Error& error) {
    pending.thrown = error;
  } catch (...) {
    pending.thrown = toError(env, currentError());
  }
  if (pending.thrown) pending.cancel->request();
}

void Runner::settle(Napi::Env env, Message& message) {
  auto node = pending_.extract(message.call);
  Pending& pending = node.mapped();
  try {
    if (pending.thrown) {
      pending.deferred.Reject(pending.thrown->Value());
    } else if (message.kind == Message::Kind::kResult) {
      pending.deferred.Resolve(message.pack(env));
    } else {
      const bool byDispose = closed() && message.error->code() == ErrorCode::kCancelled;
      pending.deferred.Reject(toError(env, byDispose ? disposedError() : *message.error).Value());
    }
  } catch (const Napi::Error& error) {
    pending.deferred.Reject(error.Value());
  } catch (...) {
    pending.deferred.Reject(toError(env, currentError()).Value());
  }
  letGoWhenIdle();
}

Napi::Value Runner::dispose(Napi::Value owner) {
  auto deferred = Napi::Promise::Deferred::New(env_);
  if (state_ == State::kClosed) {
    deferred.Resolve(env_.Undefined());
    return deferred.Promise();
  }
  hold(owner);
  disposers_.push_back(deferred);
  state_ = State::kClosing;
  thread_->close();
  return deferred.Promise();
}

void Runner::onEnded(Napi::Env env) {
  thread_->stop();  // it has ended: the message being handled was its last act
  napi_remove_env_cleanup_hook(env, onEnvironmentCleanup, this);
  channel_.Release();
  state_ = State::kClosed;
  for (const auto& deferred : disposers_) deferred.Resolve(env.Undefined());
  disposers_.clear();
  letGoWhenIdle();
}

void Runner::hold(Napi::Value owner) {
  if (!owner_.IsEmpty()) return;
  owner_ = Napi::Persistent(owner.As<Napi::Object>());
  channel_.Ref(env_);
}

// Must be the last thing a caller does: once the owner is released, this object may be collected.
void Runner::letGoWhenIdle() {
  if (!pending_.empty() || !disposers_.empty()) return;
  if (state_ != State::kClosed) channel_.Unref(env_);
  owner_.Reset();
}

}  // namespace acoer
