// The store of a run: small texts by key on rank 0 (or with the launcher), over libtorch's
// TCPStore, and the beats by which every rank tells that it is alive.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "worker.h"

namespace acoer::ranks {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

// The thread that tells every so often that this rank is alive, and reads what the others tell.
class Beats;

class Store : public Napi::ObjectWrap<Store> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Store(const Napi::CallbackInfo& info);
  ~Store() override;

  // Makes further connections to the same store, on any thread, even when this object is gone.
  // Throws before `open` has resolved.
  std::function<StorePtr()> connector() const;

 private:
  // What calls on the thread use; they may outlive this object.
  struct Connection {
    StorePtr store;
  };
  static StorePtr cloneOf(const Connection& connection);
  Napi::Value open(const Napi::CallbackInfo& info);
  Napi::Value set(const Napi::CallbackInfo& info);
  Napi::Value get(const Napi::CallbackInfo& info);
  Napi::Value has(const Napi::CallbackInfo& info);
  Napi::Value setOnce(const Napi::CallbackInfo& info);
  Napi::Value beat(const Napi::CallbackInfo& info);
  Napi::Value tell(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  Napi::Value onStore(Napi::Env env, std::function<Pack(c10d::Store&)> work);

  std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  Worker worker_;
  std::shared_ptr<Beats> beats_;
};

}  // namespace acoer::ranks
