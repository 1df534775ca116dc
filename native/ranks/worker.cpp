#include "worker.h"

#include <c10/util/Exception.h>

namespace acoer::ranks {

namespace {

// condition_variable::wait would need the libstdc++ of GCC 12.
constexpr auto kLongWait = std::chrono::hours(1);

// A call on its way to the thread and back.
struct Call {
  Napi::Promise::Deferred deferred;
  Pack pack;
  std::string error;
};

// On JavaScript's thread; `env` is null when the environment is being torn down.
void settle(Napi::Env env, Napi::Function, Call* call) {
  const std::unique_ptr<Call> own(call);
  if (static_cast<napi_env>(env) == nullptr) return;
  try {
    if (own->pack)
      own->deferred.Resolve(own->pack(env));
    else
      own->deferred.Reject(Napi::Error::New(env, own->error).Value());
  } catch (const Napi::Error& error) {
    own->deferred.Reject(error.Value());
  }
}

}  // namespace

std::string currentMessage() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an error of an unknown kind";
  }
}

Worker::Worker() : thread_([state = state_] { main(state); }) {}

void Worker::main(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    while (!state->closed && state->jobs.empty()) state->wake.wait_for(lock, kLongWait);
    if (state->closed) return;
    const auto job = std::move(state->jobs.front());
    state->jobs.pop_front();
    state->busy = true;
    lock.unlock();
    job();
    lock.lock();
    state->busy = false;
  }
}

Napi::Value Worker::run(Napi::Env env, std::function<Pack()> work, bool keepsAlive) {
  auto call = std::make_shared<std::unique_ptr<Call>>(
      new Call{Napi::Promise::Deferred::New(env), nullptr, ""});
  const Napi::Promise promise = (*call)->deferred.Promise();
  const auto nothing = Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  Channel done(env, nothing, keepsAlive);
  const std::lock_guard lock(state_->mutex);
  state_->jobs.push_back([call, done, work = std::move(work)]() mutable {
    try {
      (*call)->pack = work();
    } catch (...) {
      (*call)->error = currentMessage();
    }
    done.call(std::move(*call), settle);
    done.release();
  });
  state_->wake.notify_one();
  return promise;
}

void Worker::close() {
  if (!thread_.joinable()) return;
  bool busy = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    busy = state_->busy;
    state_->wake.notify_one();
  }
  if (busy)
    thread_.detach();
  else
    thread_.join();
}

}  // namespace acoer::ranks
