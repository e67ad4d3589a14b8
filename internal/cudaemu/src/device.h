// CUDA C for a CPU: g++ reads this before a kernel's source.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "runtime.h"

#define GRPO_EMULATED 1

extern "C" {
CudaemuRuntime* cudaemuRuntime;
int cudaemuVersion = CUDAEMU_VERSION;
}

#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

// The emulated compiler finds the names of kernels by this marker in the
// preprocessed source; then it is defined away.
#define KERNEL(limit) extern "C" void __cudaemu_kernel__(limit)
#define KERNEL_OF_BLOCKS(limit, blocks) KERNEL(limit)
#define SHARED_MEMORY (cudaemuRuntime->current->shared)

#define threadIdx (cudaemuRuntime->current->thread)
#define blockIdx (cudaemuRuntime->current->block)
#define blockDim (cudaemuRuntime->blockDim)
#define gridDim (cudaemuRuntime->gridDim)

struct alignas(16) float4 {
    float x, y, z, w;
};
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static inline void __syncthreads() { cudaemuRuntime->barrier(); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { cudaemuRuntime->exchange(1, mask, 0, -1); }

template <class T> static inline T cudaemuShuffle(unsigned mask, T v, int from) {
    static_assert(sizeof(T) <= 8, "a shuffle moves 8 bytes at most");
    unsigned long long bits = 0;
    memcpy(&bits, &v, sizeof v);
    bits = cudaemuRuntime->exchange(2, mask, bits, from);
    memcpy(&v, &bits, sizeof v);
    return v;
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from) { return cudaemuShuffle(mask, v, from & 31); }
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int with) {
    return cudaemuShuffle(mask, v, cudaemuRuntime->lane() ^ with);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by) {
    int lane = cudaemuRuntime->lane();
    return cudaemuShuffle(mask, v, lane < (int)by ? lane : lane - (int)by);
}
static inline unsigned __ballot_sync(unsigned mask, int yes) { return cudaemuRuntime->ballot(mask, yes != 0); }

static inline int emulatedClusterRank() { return cudaemuRuntime->current->rank; }
static inline void emulatedClusterSync() { cudaemuRuntime->clusterBarrier(); }
static inline void emulatedClusterStore(float* p, int rank, float v) {
    *(float*)(cudaemuRuntime->sharedOf(rank) + ((char*)p - SHARED_MEMORY)) = v;
}

// Threads of the emulator never run at the same time.
static inline int atomicAdd(int* p, int v) {
    int old = *p;
    *p = old + v;
    return old;
}

template <class T> static inline T __ldg(const T* p) { return *p; }
static inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
static inline int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline float __int_as_float(int i) {
    float f;
    memcpy(&f, &i, sizeof f);
    return f;
}
static inline float __uint_as_float(unsigned i) { return __int_as_float((int)i); }
static inline unsigned __float_as_uint(float f) {
    unsigned i;
    memcpy(&i, &f, sizeof i);
    return i;
}
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }
using std::exp;

template <class... A, size_t... I> static void cudaemuApply(void (*f)(A...), void** p, std::index_sequence<I...>) {
    f(*(A*)p[I]...);
}
template <class... A> static void cudaemuCall(void (*f)(A...), void** p) {
    cudaemuApply(f, p, std::index_sequence_for<A...>{});
}
template <class... A> struct CudaemuSizes {
    static constexpr int count = sizeof...(A);
    static constexpr int sizes[sizeof...(A) + 1] = {(int)sizeof(A)..., 0};
};
template <class... A> static CudaemuSizes<A...> cudaemuSizes(void (*)(A...)) { return {}; }
