#include "group.h"

#define USE_C10D_GLOO  // libtorch has it; its headers ask to be told
#include <ATen/ATen.h>

#include <numeric>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "store.h"

namespace acoer::ranks {

namespace {

using Tensors = std::vector<at::Tensor>;

// How unequal waiting is bounded by the beats, not by Gloo: after a time-out it closes every
// connection.
constexpr auto kForever = std::chrono::hours(24 * 365);
// Of the message with which a rank parts from its right neighbour; collectives have tags of their
// own.
constexpr int kPartTag = 1;
// Of what one rank brings to a gather; more is a mistake, or a stranger.
constexpr int64_t kMostBytes = int64_t{1} << 32;

at::Tensor bytesTensor(int64_t size) { return at::empty({size}, at::kByte); }

// [R] what each rank brings, in bytes.
std::vector<int64_t> gatherLengths(c10d::ProcessGroupGloo& group, int size, int64_t own) {
  Tensors input{at::full({1}, own, at::kLong)};
  std::vector<Tensors> outputs(1);
  for (int r = 0; r < size; ++r) outputs[0].push_back(at::empty({1}, at::kLong));
  group.allgather(outputs, input, {})->wait();
  std::vector<int64_t> lengths;
  for (const auto& length : outputs[0]) lengths.push_back(length.item<int64_t>());
  for (const int64_t length : lengths)
    if (length < 0 || length > kMostBytes)
      throw std::runtime_error("a rank brings " + std::to_string(length) + " bytes");
  return lengths;
}

// Each rank's bytes padded to the longest: one collective.
Tensors gatherPadded(c10d::ProcessGroupGloo& group, const std::vector<int64_t>& lengths,
                     const at::Tensor& own, int64_t longest) {
  Tensors input{at::zeros({longest}, at::kByte)};
  input[0].slice(0, 0, own.numel()).copy_(own);
  std::vector<Tensors> outputs(1);
  for (size_t r = 0; r < lengths.size(); ++r) outputs[0].push_back(bytesTensor(longest));
  group.allgather(outputs, input, {})->wait();
  for (size_t r = 0; r < lengths.size(); ++r) outputs[0][r] = outputs[0][r].slice(0, 0, lengths[r]);
  return outputs[0];
}

// From each rank in turn: no padding where one brings far more than the others.
Tensors gatherInTurn(c10d::ProcessGroupGloo& group, const std::vector<int64_t>& lengths,
                     const at::Tensor& own, int rank) {
  Tensors all;
  for (size_t r = 0; r < lengths.size(); ++r) {
    Tensors one{static_cast<int>(r) == rank ? own : bytesTensor(lengths[r])};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int64_t>(r);
    if (lengths[r] > 0) group.broadcast(one, options)->wait();
    all.push_back(one[0]);
  }
  return all;
}

// An array of JavaScript's in whose memory a collective works. Nobody may touch it meanwhile.
struct Lent {
  at::Tensor values;
  // Keeps the memory until the result is packed, which is on JavaScript's thread.
  std::shared_ptr<Napi::Reference<Napi::TypedArray>> held;

  Pack done() const {
    return [held = held](Napi::Env env) {
      held->Reset();
      return env.Undefined();
    };
  }
};

Lent lent(const Napi::Value& value) {
  const auto given = value.As<Napi::TypedArray>();
  const bool isDouble = given.TypedArrayType() == napi_float64_array;
  if (!isDouble && given.TypedArrayType() != napi_float32_array)
    throw Napi::TypeError::New(value.Env(), "collectives in place are of float64 or float32");
  auto* memory = static_cast<char*>(given.ArrayBuffer().Data()) + given.ByteOffset();
  const auto values = at::from_blob(memory, {static_cast<int64_t>(given.ElementLength())},
                                    isDouble ? at::kDouble : at::kFloat);
  auto held = std::make_shared<Napi::Reference<Napi::TypedArray>>(Napi::Persistent(given));
  held->SuppressDestruct();
  return {values, held};
}

// [R + 1] where the parts of the ranks begin, which together are all of `count` numbers.
std::vector<int64_t> partOffsets(const Napi::Value& value, int size, int64_t count) {
  const auto given = value.As<Napi::Array>();
  std::vector<int64_t> offsets;
  for (uint32_t i = 0; i < given.Length(); ++i)
    offsets.push_back(given.Get(i).ToNumber().Int64Value());
  const bool whole = static_cast<int>(offsets.size()) == size + 1 && offsets.front() == 0 &&
                     offsets.back() == count && std::is_sorted(offsets.begin(), offsets.end());
  if (!whole)
    throw Napi::RangeError::New(value.Env(), "offsets must rise from 0 to " +
                                                 std::to_string(count) + ", one for each rank");
  return offsets;
}

}  // namespace

struct Group::Peers {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  int rank = 0;
  int size = 1;

  int left() const { return (rank + size - 1) % size; }
  int right() const { return (rank + 1) % size; }
};

Napi::Function Group::define(Napi::Env env) {
  return DefineClass(
      env, "Group",
      {InstanceMethod<&Group::open>("open"), InstanceMethod<&Group::gather>("gather"),
       InstanceMethod<&Group::sum>("sum"), InstanceMethod<&Group::gatherInPlace>("gatherInPlace"),
       InstanceMethod<&Group::watch>("watch"), InstanceMethod<&Group::part>("part"),
       InstanceMethod<&Group::close>("close")});
}

// open({store, rank, size, address}): connects every rank with every other, from `address`.
Napi::Value Group::open(const Napi::CallbackInfo& info) {
  const auto given = info[0].As<Napi::Object>();
  const auto connect = Store::Unwrap(given.Get("store").As<Napi::Object>())->connector();
  const std::string address = given.Get("address").ToString();
  peers_ = std::make_shared<Peers>();
  peers_->rank = given.Get("rank").ToNumber();
  peers_->size = given.Get("size").ToNumber();
  const auto work = [=, peers = peers_]() -> Pack {
    auto options = c10d::ProcessGroupGloo::Options::create(kForever);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    const auto store = c10::make_intrusive<c10d::PrefixStore>("gloo", connect());
    peers->group =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, peers->rank, peers->size, options);
    return [](Napi::Env env) { return env.Undefined(); };
  };
  return worker_.run(info.Env(), work, true);
}

// gather(bytes: Uint8Array): Buffer[], what every rank brought, in rank order.
Napi::Value Group::gather(const Napi::CallbackInfo& info) {
  const auto given = info[0].As<Napi::Uint8Array>();
  auto own = bytesTensor(static_cast<int64_t>(given.ByteLength()));
  std::copy_n(given.Data(), given.ByteLength(), own.data_ptr<uint8_t>());
  const auto work = [own, peers = peers_]() -> Pack {
    const auto& [group, rank, size] = *peers;
    const auto lengths = gatherLengths(*group, size, own.numel());
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    // Padding may double what is sent, not more.
    const bool even = longest * size <= 2 * total;
    const Tensors all = even ? gatherPadded(*group, lengths, own, std::max<int64_t>(longest, 1))
                             : gatherInTurn(*group, lengths, own, rank);
    return [all](Napi::Env env) {
      auto list = Napi::Array::New(env, all.size());
      for (uint32_t r = 0; r < all.size(); ++r)
        list[r] = Napi::Buffer<uint8_t>::Copy(env, all[r].data_ptr<uint8_t>(),
                                              static_cast<size_t>(all[r].numel()));
      return list;
    };
  };
  return worker_.run(info.Env(), work, true);
}

// sum(values: Float64Array | Float32Array): replaces them, in their own memory, by the sums over
// all ranks. Gloo's ring adds in one order for all, so every rank has the same bits.
Napi::Value Group::sum(const Napi::CallbackInfo& info) {
  const auto work = [all = lent(info[0]), peers = peers_]() -> Pack {
    Tensors values{all.values};
    if (all.values.numel() > 0) peers->group->allreduce(values, {})->wait();
    return all.done();
  };
  return worker_.run(info.Env(), work, true);
}

// gatherInPlace(values: Float64Array | Float32Array, offsets: number[]): each rank has the numbers
// [offsets[rank], offsets[rank + 1]) and gets those of the others, in their own memory. Gloo's own
// all-gather is of equal parts, and through a copy of them all.
Napi::Value Group::gatherInPlace(const Napi::CallbackInfo& info) {
  const auto count = static_cast<int64_t>(info[0].As<Napi::TypedArray>().ElementLength());
  const auto offsets = partOffsets(info[1], peers_->size, count);
  const auto work = [all = lent(info[0]), offsets, peers = peers_]() -> Pack {
    for (size_t r = 0; r + 1 < offsets.size(); ++r) {
      Tensors part{all.values.slice(0, offsets[r], offsets[r + 1])};
      c10d::BroadcastOptions options;
      options.rootRank = static_cast<int64_t>(r);
      if (part[0].numel() > 0) peers->group->broadcast(part, options)->wait();
    }
    return all.done();
  };
  return worker_.run(info.Env(), work, true);
}

// watch(): waits for the left neighbour to part. Rejects as soon as its connection is closed
// without that, which no collective would notice before the next one. Returns {rank, parted}.
Napi::Value Group::watch(const Napi::CallbackInfo& info) {
  const auto work = [peers = peers_]() -> Pack {
    Tensors word{at::zeros({1}, at::kByte)};
    peers->group->recv(word, peers->left(), kPartTag)->wait();
    return [](Napi::Env env) { return env.Undefined(); };
  };
  return watcher_.run(info.Env(), work, false);
}

// part(): tells the right neighbour, after the last collective, that this rank ends as it should.
Napi::Value Group::part(const Napi::CallbackInfo& info) {
  const auto work = [peers = peers_]() -> Pack {
    Tensors word{at::ones({1}, at::kByte)};
    peers->group->send(word, peers->right(), kPartTag)->wait();
    return [](Napi::Env env) { return env.Undefined(); };
  };
  return worker_.run(info.Env(), work, true);
}

Napi::Value Group::close(const Napi::CallbackInfo& info) {
  worker_.close();
  watcher_.close();
  peers_.reset();
  return info.Env().Undefined();
}

}  // namespace acoer::ranks
