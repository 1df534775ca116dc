// The decode attention prototype as a C function, called by compare.py and probe.py.
//
// Emulated:
//
//   g++ -std=c++20 -O2 -shared -fPIC -DACOER_EMULATE -x c++ -o decode.so decode_attention.cu
//
// For a GPU:
//
//   nvcc -std=c++17 -O3 -arch=sm_86 -shared -Xcompiler -fPIC -o decode.so decode_attention.cu
#include "decode_attention.cuh"

extern "C" void acoerDecodeAttention(const void* q, const void* keys, const void* values,
                                     const int* slots, const int* positions, float* partial,
                                     float* stats, void* out, int rows, int kvHeads, int capacity,
                                     int splits, float scale, void* stream) {
  const acoer_cuda::DecodeAttention attention{static_cast<const __nv_bfloat16*>(q),
                                              static_cast<const __nv_bfloat16*>(keys),
                                              static_cast<const __nv_bfloat16*>(values),
                                              slots,
                                              positions,
                                              partial,
                                              stats,
                                              static_cast<__nv_bfloat16*>(out),
                                              kvHeads,
                                              capacity,
                                              splits,
                                              scale};
  acoer_cuda::decodeAttention(attention, rows, static_cast<cudaStream_t>(stream));
}

#ifdef ACOER_EMULATE
// Another seed gives another order of threads and blocks.
extern "C" void acoerEmuSeed(unsigned long seed) { emu::seed() = seed; }
#endif
