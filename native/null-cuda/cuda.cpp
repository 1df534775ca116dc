// The driver library, as far as libtorch and device.cpp use it.
#include <cstdio>

extern "C" {

int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of null-cuda";
  return 0;
}
int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<size_t>(size), "null RTX A6000");
  return 0;
}

}  // extern "C"
