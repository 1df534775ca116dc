#include "launch.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "../emu/cuda_emu.h"
#include "base/error.h"
#include "host_blocks.h"
#include "kernels/gpu/kernels.h"

namespace acoer::check {
namespace {

// Before and behind every copy, so that a write beside it is seen. A multiple of what a GPU's
// allocations are aligned to.
constexpr size_t kGuardBytes = 512;
constexpr int kGuardValue = 0xFF;  // a NaN in every type

std::set<std::string>& launched() {
  static std::set<std::string> names;
  return names;
}

// Name of a kernel function; the program exports its symbols.
std::string kernelName(void* kernel) {
  Dl_info info;
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != kernel) {
    fail(ErrorCode::kInternal, "a kernel without a name was launched");
  }
  return info.dli_sname;
}

std::optional<cuda::KernelId> kernelOf(const std::string& name) {
  for (size_t i = 0; i < cuda::kKernelCount; ++i) {
    if (name == cuda::kKernels[i].name) return static_cast<cuda::KernelId>(i);
  }
  return std::nullopt;
}

// One vector of the test, on the device.
struct Copy {
  HostBlock host;
  at::Tensor bytes;  // with the guards
  // Addresses among the vector's elements, as the test wrote them: the copy holds others.
  std::map<size_t, uintptr_t> addresses;
  char* begin() const { return static_cast<char*>(bytes.data_ptr()) + kGuardBytes; }
};

// What the arguments of one launch point to, also through vectors of structs with pointers. Every
// word that is an address in a block of the test is replaced by the same place in a copy on the
// device; that a number looks like such an address is not to be expected.
class Copies {
 public:
  Copies(c10::Device device, void* args, size_t argsBytes) : device_(device) {
    auto* words = static_cast<uintptr_t*>(args);
    for (size_t i = 0; i < argsBytes / sizeof(uintptr_t); ++i) words[i] = translated(words[i]);
  }

  // Waits for the device.
  void takeBack(const std::string& kernel) const {
    for (const auto& [host, copy] : copies_) {
      const at::Tensor bytes = copy.bytes.cpu();
      const auto* found = static_cast<const unsigned char*>(bytes.const_data_ptr());
      for (size_t i = 0; i < kGuardBytes; ++i) {
        if (found[i] != kGuardValue || found[kGuardBytes + copy.host.bytes + i] != kGuardValue) {
          fail(ErrorCode::kInternal, kernel + " wrote beside one of its arrays");
        }
      }
      std::memcpy(host, found + kGuardBytes, copy.host.bytes);
      for (const auto& [offset, address] : copy.addresses) {
        std::memcpy(host + offset, &address, sizeof address);
      }
    }
  }

 private:
  uintptr_t translated(uintptr_t word) {
    const HostBlock block = blockOf(word);
    if (block.bytes == 0) return word;
    return reinterpret_cast<uintptr_t>(copyOf(block).begin()) +
           (word - reinterpret_cast<uintptr_t>(block.begin));
  }

  const Copy& copyOf(const HostBlock& block) {
    const auto [at, isNew] = copies_.try_emplace(block.begin);
    Copy& copy = at->second;
    if (!isNew) return copy;
    const auto bytes = static_cast<int64_t>(block.bytes);
    copy.host = block;
    copy.bytes = at::full({bytes + int64_t{2 * kGuardBytes}}, kGuardValue,
                          at::device(device_).dtype(at::kByte));
    at::Tensor content = at::empty({bytes}, at::kByte);
    auto* to = static_cast<char*>(content.data_ptr());
    std::memcpy(to, block.begin, block.bytes);
    for (size_t i = 0; i + sizeof(uintptr_t) <= block.bytes; i += sizeof(uintptr_t)) {
      uintptr_t word;
      std::memcpy(&word, to + i, sizeof word);
      if (blockOf(word).bytes == 0) continue;
      copy.addresses[i] = word;
      word = translated(word);
      std::memcpy(to + i, &word, sizeof word);
    }
    copy.bytes.narrow(0, kGuardBytes, bytes).copy_(content);
    return copy;
  }

  c10::Device device_;
  std::map<char*, Copy> copies_;
};

// GpuKernels::launch() takes the struct itself and looks at its size only.
template <size_t kWords = 1>
void launchWords(const GpuKernels& kernels, cuda::KernelId id, LaunchSize grid,
                 const emu::Launch& launch, void* stream) {
  if constexpr (kWords > 64) {
    fail(ErrorCode::kInternal, "the arguments of a kernel are larger than expected");
  } else if (launch.argsBytes == kWords * sizeof(uint64_t)) {
    std::array<uint64_t, kWords> args;
    std::memcpy(args.data(), launch.args, launch.argsBytes);
    kernels.launch(id, grid, args, stream);
  } else {
    launchWords<kWords + 1>(kernels, id, grid, launch, stream);
  }
}

void launchOnGpu(c10::Device device, const std::string& name, const emu::Launch& launch) {
  const auto id = kernelOf(name);
  if (!id) fail(ErrorCode::kInternal, name + " is not in the table of kernels");
  const cuda::KernelInfo& info = cuda::kernelInfo(*id);
  const bool asListed = launch.size.x == info.threads && launch.size.y == 1 && launch.size.z == 1 &&
                        launch.dynamicSharedBytes == 0;
  if (!asListed) fail(ErrorCode::kInternal, name + " is launched otherwise than the table says");
  const GpuKernelChoice& choice = gpuKernels(device);
  if (choice.kernels == nullptr) fail(ErrorCode::kDevice, choice.reason);
  launchWords(*choice.kernels, *id, {launch.grid.x, launch.grid.y, launch.grid.z}, launch,
              currentGpuStream(device));
}

}  // namespace

void launchOn(c10::Device device) {
  emu::launcher() = [device](const emu::Launch& launch) {
    const AllocationsNotNoted ours;
    const std::string name = kernelName(launch.kernel);
    launched().insert(name);
    const Copies copies(device, launch.args, launch.argsBytes);
    if (device.is_cpu()) {
      launch.emulate();
    } else {
      launchOnGpu(device, name, launch);
    }
    copies.takeBack(name);
  };
}

const std::set<std::string>& launchedKernels() { return launched(); }

}  // namespace acoer::check
