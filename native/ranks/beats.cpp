#include "beats.h"

#include <unistd.h>

namespace acoer::ranks {

namespace {

using Clock = std::chrono::steady_clock;
using Ms = std::chrono::milliseconds;
using Bytes = std::vector<uint8_t>;

// Keys that any rank may set once, for all to see: why the run ends, and that it is to stop.
const std::vector<std::string> kNotes{"end", "stop"};

Bytes bytesOf(const std::string& text) { return {text.begin(), text.end()}; }
std::string textOf(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// From a thread, whatever the others of this process are doing.
[[noreturn]] void exitStopped(int rank, Ms stopped, Ms limit) {
  const std::string text =
      "acoer: rank " + std::to_string(rank) + " was stopped, or cut off, for " +
      std::to_string(stopped.count() / 1000) + " s, and the other ranks wait for " +
      std::to_string(limit.count() / 1000) +
      " s only: it ends without writing anything. Continue the run with --resume.\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(1);
}

}  // namespace

struct Beats::Report {
  std::vector<std::string> beats;
  std::vector<std::pair<std::string, std::string>> notes;
  std::string failed;
  Ms stopped{};

  bool last() const { return !failed.empty() || stopped.count() > 0; }

  Napi::Object pack(Napi::Env env) const {
    auto object = Napi::Object::New(env);
    if (stopped.count() > 0) {
      object["stoppedMs"] = static_cast<double>(stopped.count());
      return object;
    }
    if (!failed.empty()) {
      object["failed"] = failed;
      return object;
    }
    auto list = Napi::Array::New(env, beats.size());
    for (uint32_t r = 0; r < beats.size(); ++r) list[r] = beats[r];
    auto set = Napi::Object::New(env);
    for (const auto& [name, text] : notes) set[name] = text;
    object["beats"] = list;
    object["notes"] = set;
    return object;
  }
};

std::shared_ptr<Beats> Beats::start(Napi::Env env, Connector connect, const BeatSettings& settings,
                                    std::string told, Napi::Function report) {
  const std::shared_ptr<Beats> beats(new Beats(settings, std::move(told)));
  Channel channel(env, report, false);
  std::thread([beats, connect = std::move(connect), channel]() mutable {
    beats->main(connect, channel);
    channel.release();
  }).detach();
  return beats;
}

void Beats::tell(std::string text) {
  const std::lock_guard lock(mutex_);
  told_ = std::move(text);
}

void Beats::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  wake_.notify_one();
}

// Returns false when it is over.
bool Beats::sleep() {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, settings_.every, [this] { return stopped_; });
}

Beats::Report Beats::beat(c10d::Store& store, int64_t number) {
  Report report;
  std::string own = std::to_string(number) + ' ';
  {
    const std::lock_guard lock(mutex_);
    own += told_;
  }
  store.set("beat/" + std::to_string(settings_.rank), bytesOf(own));
  std::vector<std::string> keys;
  for (int r = 0; r < settings_.size; ++r) keys.push_back("beat/" + std::to_string(r));
  for (const Bytes& beat : store.multiGet(keys)) report.beats.push_back(textOf(beat));
  for (const std::string& note : kNotes)
    if (store.check({note})) report.notes.emplace_back(note, textOf(store.get(note)));
  return report;
}

bool Beats::send(Channel& channel, Report report) {
  const bool last = report.last();
  const auto pack = [](Napi::Env env, Napi::Function call, Report* report) {
    const std::unique_ptr<Report> own(report);
    if (static_cast<napi_env>(env) != nullptr) call.Call({own->pack(env)});
  };
  return channel.call<Report>(std::make_unique<Report>(std::move(report)), pack) && !last;
}

// A gap is a process that was stopped, or a call over a link that was cut for as long.
Beats::Report Beats::awake(Clock::time_point& heard, Report report) const {
  const auto now = Clock::now();
  const auto gap = std::chrono::duration_cast<Ms>(now - heard);
  heard = now;
  if (gap <= settings_.stoppedAfter) return report;
  if (settings_.exitWhenStopped) exitStopped(settings_.rank, gap, settings_.stoppedAfter);
  report.stopped = gap;
  return report;
}

void Beats::main(const Connector& connect, Channel& channel) {
  c10::intrusive_ptr<c10d::Store> store;
  auto heard = Clock::now();
  for (int64_t number = 1;; ++number) {
    Report report;
    try {
      if (!store) store = connect();
      report = beat(*store, number);
    } catch (...) {
      report.failed = currentMessage();
    }
    if (!send(channel, awake(heard, std::move(report))) || !sleep()) return;
    const Report after = awake(heard, {});
    if (after.last()) {
      send(channel, after);
      return;
    }
  }
}

}  // namespace acoer::ranks
