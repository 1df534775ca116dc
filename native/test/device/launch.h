// Takes a launch of the emulator's tests to a device: copies what the arguments point to there,
// runs the kernel of the fatbin, and copies everything back.
#pragma once

#include <c10/core/Device.h>

#include <set>
#include <string>

namespace acoer::check {

// All launches of the tests go to `device` from now on. On a CPU the emulator runs the kernel, but
// on copies as a GPU would: that tests this file.
void launchOn(c10::Device device);

// The kernels launched so far, as they are called in the fatbin.
const std::set<std::string>& launchedKernels();

}  // namespace acoer::check
