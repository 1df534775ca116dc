// Facts about this machine and process, from /proc, cgroups and the scheduler.
#pragma once

#include <cstdint>
#include <string>

namespace acoer {

// Cores that this process may use: its affinity, limited by the container's CPU quota rounded up.
// At least 1.
int availableCores();

std::string processorName();

struct MachineMemory {
  int64_t totalBytes = 0;  // the container's limit where that is smaller
  int64_t freeBytes = 0;   // what can still be taken without swapping
};
MachineMemory machineMemory();

struct ProcessMemory {
  int64_t residentBytes = 0;
  int64_t peakResidentBytes = 0;
};
ProcessMemory processMemory();

}  // namespace acoer
