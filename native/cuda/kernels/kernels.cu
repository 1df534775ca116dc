// All kernels as one translation unit for nvcc.
#include "advance.cuh"
#include "attention.cuh"
#include "dropout.cuh"
#include "norm.cuh"
#include "rotate.cuh"
#include "sampler.cuh"
#include "swiglu.cuh"
