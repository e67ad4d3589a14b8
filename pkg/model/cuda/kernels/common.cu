// What all kernels share. NVRTC reads the files of a module as one text, in
// which this one comes first. No header of CUDA is needed.
//
// GRPO_EMULATED is set where the same text is compiled for a CPU, whose header
// then brings KERNEL, KERNEL_OF_BLOCKS, SHARED_MEMORY and the intrinsics.

#ifndef GRPO_EMULATED
// A kernel of at most this many threads a block; of this many blocks that a
// multiprocessor must be able to hold.
#define KERNEL(limit) extern "C" __global__ void __launch_bounds__(limit)
#define KERNEL_OF_BLOCKS(limit, blocks) extern "C" __global__ void __launch_bounds__(limit, blocks)
extern __shared__ float4 dynamicShared[];
#define SHARED_MEMORY ((char*)dynamicShared)
#endif

#define DEVICE __device__ __forceinline__

// All lanes of a warp.
#define FULL 0xffffffffu

// Below this the exponential is 0; it bounds z where 0·(-Inf) would be NaN.
#define EXP_MIN (-105.0f)

DEVICE float infinity() { return __int_as_float(0x7f800000); }

// 1/(1+e⁻ˣ), to about 2 ulp: the division is the quick one, whose argument lies
// in [1, ∞], where it is accurate or 0.
DEVICE float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

// warpSum adds a value over the lanes of a warp; every lane gets the sum, with
// the same bits.
template <class T> DEVICE T warpSum(T v) {
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(FULL, v, mask);
    return v;
}

DEVICE float warpMax(float v) {
    for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, mask));
    return v;
}

// blockSum adds a double over the threads of a block of a power of two of them,
// in a fixed tree; thread 0 gets the sum. shared has a place for each thread.
DEVICE double blockSum(double v, double* shared) {
    int i = threadIdx.x;
    shared[i] = v;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half >>= 1) {
        if (i < half) shared[i] += shared[i + half];
        __syncthreads();
    }
    double sum = shared[0];
    __syncthreads();
    return sum;
}

DEVICE long long globalThread() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE long long globalThreads() { return (long long)gridDim.x * blockDim.x; }
