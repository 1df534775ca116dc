#include "store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "beats.h"
#include "socket.h"

namespace acoer::ranks {

namespace {

using Bytes = std::vector<uint8_t>;
using Ms = std::chrono::milliseconds;

Bytes bytesOf(const std::string& text) { return {text.begin(), text.end()}; }
std::string textOf(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

Pack packText(std::string text) {
  return [text = std::move(text)](Napi::Env env) { return Napi::String::New(env, text); };
}

Pack packNothing() {
  return [](Napi::Env env) { return env.Undefined(); };
}

std::string textArgument(const Napi::CallbackInfo& info, size_t i) {
  return info[i].ToString().Utf8Value();
}

}  // namespace

Napi::Function Store::define(Napi::Env env) {
  return DefineClass(
      env, "Store",
      {InstanceMethod<&Store::open>("open"), InstanceMethod<&Store::set>("set"),
       InstanceMethod<&Store::get>("get"), InstanceMethod<&Store::has>("has"),
       InstanceMethod<&Store::setOnce>("setOnce"), InstanceMethod<&Store::beat>("beat"),
       InstanceMethod<&Store::tell>("tell"), InstanceMethod<&Store::close>("close")});
}

Store::Store(const Napi::CallbackInfo& info) : ObjectWrap(info) {}

Store::~Store() {
  if (beats_) beats_->stop();
}

StorePtr Store::cloneOf(const Connection& connection) {
  if (!connection.store) throw std::runtime_error("the store is not open");
  return connection.store->clone();
}

std::function<StorePtr()> Store::connector() const {
  return [connection = connection_] { return cloneOf(*connection); };
}

// open({host, port, bind: string | null, prefix, timeoutMs}): the port. `bind`: serve the store
// there.
Napi::Value Store::open(const Napi::CallbackInfo& info) {
  const auto given = info[0].As<Napi::Object>();
  const std::string host = given.Get("host").ToString(), prefix = given.Get("prefix").ToString();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(given.Get("port").ToNumber().Uint32Value());
  options.waitWorkers = false;
  options.timeout = Ms(given.Get("timeoutMs").ToNumber().Int64Value());
  options.isServer = given.Get("bind").IsString();
  const std::string bind = options.isServer ? given.Get("bind").ToString().Utf8Value() : "";
  const auto work = [=, connection = connection_]() mutable -> Pack {
    if (options.isServer) options.masterListenFd = listenOn(bind, options.port);
    const uint16_t port = options.port;
    connection->store = c10::make_intrusive<c10d::PrefixStore>(
        prefix, c10::make_intrusive<c10d::TCPStore>(host, options));
    return [port](Napi::Env env) { return Napi::Number::New(env, port); };
  };
  return worker_.run(info.Env(), work, true);
}

Napi::Value Store::onStore(Napi::Env env, std::function<Pack(c10d::Store&)> work) {
  const auto call = [connection = connection_, work = std::move(work)]() -> Pack {
    if (!connection->store) throw std::runtime_error("the store is not open");
    return work(*connection->store);
  };
  return worker_.run(env, call, false);
}

// set(key, text)
Napi::Value Store::set(const Napi::CallbackInfo& info) {
  const auto work = [key = textArgument(info, 0),
                     text = textArgument(info, 1)](c10d::Store& store) {
    store.set(key, bytesOf(text));
    return packNothing();
  };
  return onStore(info.Env(), work);
}

// get(key): its text; waits for it for as long as the store's time-out.
Napi::Value Store::get(const Napi::CallbackInfo& info) {
  const auto work = [key = textArgument(info, 0)](c10d::Store& store) {
    return packText(textOf(store.get(key)));
  };
  return onStore(info.Env(), work);
}

// has(key): whether it is set.
Napi::Value Store::has(const Napi::CallbackInfo& info) {
  const auto work = [key = textArgument(info, 0)](c10d::Store& store) -> Pack {
    const bool there = store.check({key});
    return [there](Napi::Env env) { return Napi::Boolean::New(env, there); };
  };
  return onStore(info.Env(), work);
}

// setOnce(key, text): what the key holds now, which is `text` unless it was set before.
Napi::Value Store::setOnce(const Napi::CallbackInfo& info) {
  const auto work = [key = textArgument(info, 0),
                     text = textArgument(info, 1)](c10d::Store& store) {
    return packText(textOf(store.compareSet(key, {}, bytesOf(text))));
  };
  return onStore(info.Env(), work);
}

// beat({rank, size, everyMs, stoppedAfterMs, exitWhenStopped, told}, report)
Napi::Value Store::beat(const Napi::CallbackInfo& info) {
  const auto given = info[0].As<Napi::Object>();
  const auto number = [&](const char* name) { return given.Get(name).ToNumber().Int64Value(); };
  const BeatSettings settings{.rank = static_cast<int>(number("rank")),
                              .size = static_cast<int>(number("size")),
                              .every = Ms(number("everyMs")),
                              .stoppedAfter = Ms(number("stoppedAfterMs")),
                              .exitWhenStopped = given.Get("exitWhenStopped").ToBoolean()};
  const std::string told = given.Get("told").ToString();
  // Connected on the thread of the beats, because that may wait.
  beats_ = Beats::start(info.Env(), connector(), settings, told, info[1].As<Napi::Function>());
  return info.Env().Undefined();
}

// tell(text): what the next beats carry.
Napi::Value Store::tell(const Napi::CallbackInfo& info) {
  if (beats_) beats_->tell(textArgument(info, 0));
  return info.Env().Undefined();
}

Napi::Value Store::close(const Napi::CallbackInfo& info) {
  if (beats_) beats_->stop();
  worker_.close();
  return info.Env().Undefined();
}

}  // namespace acoer::ranks
