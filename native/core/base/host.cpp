#include "base/host.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>

namespace acoer {
namespace {

// The rest of the first line of `path` that starts with `key`.
std::string lineAfter(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "";
}

// Reads lines such as "VmRSS:   1234 kB".
int64_t kilobytesAfter(const char* path, const std::string& key) {
  const std::string text = lineAfter(path, key);
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10) * 1024;
}

// The number in a file; nothing if the file is missing or says "max".
std::optional<int64_t> numberIn(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// The cgroup v2 CPU quota, in CPUs.
std::optional<double> cpuQuota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (file >> quota >> period && period > 0) return quota / period;
  return std::nullopt;
}

}  // namespace

int availableCores() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
  int cores = known ? CPU_COUNT(&set) : 1;
  if (const auto quota = cpuQuota()) cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  return std::max(cores, 1);
}

std::string processorName() {
  const std::string text = lineAfter("/proc/cpuinfo", "model name");
  const size_t start = text.find_first_not_of("\t :");
  return start == std::string::npos ? "cpu" : text.substr(start);
}

MachineMemory machineMemory() {
  MachineMemory memory{kilobytesAfter("/proc/meminfo", "MemTotal:"),
                       kilobytesAfter("/proc/meminfo", "MemAvailable:")};
  if (const auto limit = numberIn("/sys/fs/cgroup/memory.max")) {
    memory.totalBytes = std::min(memory.totalBytes, *limit);
    const int64_t used = numberIn("/sys/fs/cgroup/memory.current").value_or(0);
    memory.freeBytes = std::min(memory.freeBytes, std::max<int64_t>(*limit - used, 0));
  }
  return memory;
}

ProcessMemory processMemory() {
  return {kilobytesAfter("/proc/self/status", "VmRSS:"),
          kilobytesAfter("/proc/self/status", "VmHWM:")};
}

}  // namespace acoer
