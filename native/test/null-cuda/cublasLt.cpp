// cuBLASLt: one algorithm is found for everything, and products are only counted.
#include <cstdint>
#include <cstring>

extern "C" {

void nullCudaGemm(const char* event);

// cublasLtMatmulHeuristicResult_t is larger than what libtorch reads of it: algorithm, workspace
// bytes, state.
constexpr size_t kResultBytes = 96;

int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   char* results, int* found) {
  std::memset(results, 0, kResultBytes);
  *found = 1;
  return 0;
}
int cublasLtMatmul() {
  nullCudaGemm("GEMM cublasLt");
  return 0;
}
int cublasLtCreate(void** handle) {
  *handle = reinterpret_cast<void*>(uintptr_t{0x20});
  return 0;
}

}  // extern "C"
