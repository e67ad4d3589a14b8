// Definitions for all kernels. The files of a module are compiled as one source,
// this one first, without CUDA headers. With GRPO_EMULATED the source is compiled
// for the CPU, and the emulator's header defines KERNEL, KERNEL_OF_BLOCKS,
// SHARED_MEMORY and the intrinsics.

#ifndef GRPO_EMULATED
// A kernel with its launch bounds: threads of a block, resident blocks of a
// multiprocessor.
#define KERNEL(limit) extern "C" __global__ void __launch_bounds__(limit)
#define KERNEL_OF_BLOCKS(limit, blocks) extern "C" __global__ void __launch_bounds__(limit, blocks)
extern __shared__ float4 dynamicShared[];
#define SHARED_MEMORY ((char*)dynamicShared)
#endif

#define DEVICE __device__ __forceinline__

// All lanes of a warp.
#define FULL 0xffffffffu

// exp is 0 below this. As a lower bound of z it avoids 0·(-Inf) = NaN.
#define EXP_MIN (-105.0f)

DEVICE float infinity() { return __int_as_float(0x7f800000); }

// 1/(1+e⁻ˣ) to about 2 ulp. The fast division is accurate, or 0, for divisors in
// [1, ∞].
DEVICE float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

// warpSum sums over the lanes of a warp; every lane gets the same bits.
template <class T> DEVICE T warpSum(T v) {
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(FULL, v, mask);
    return v;
}

DEVICE float warpMax(float v) {
    for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, mask));
    return v;
}

// blockSum sums over the threads of a block, whose number is a power of two, in a
// fixed tree. shared has an element for each thread.
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

// firstAbove returns the first lane with a token whose sum is above the target (passed is true). If
// rounding keeps all sums below it, it returns the last lane with a token, or -1 (passed is false).
DEVICE int firstAbove(bool holds, double sum, double target, bool* passed) {
    unsigned any = __ballot_sync(FULL, holds), above = __ballot_sync(FULL, holds && sum > target);
    *passed = above != 0;
    if (above) return __ffs(above) - 1;
    return any ? 31 - __clz(any) : -1;
}

DEVICE long long globalThread() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE long long globalThreads() { return (long long)gridDim.x * blockDim.x; }
