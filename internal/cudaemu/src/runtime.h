// The interface between a compiled kernel module and the emulated driver.
#pragma once

#define CUDAEMU_VERSION 1

struct CudaemuDim {
    unsigned x, y, z;
};

// A thread of a kernel, as the kernel sees it.
struct CudaemuThread {
    CudaemuDim thread, block;
    unsigned rank; // of the block in its cluster
    char* shared;  // of the block
};

// CudaemuRuntime has the functions that a kernel calls. The driver writes its
// address into the module's cudaemuRuntime at loading.
struct CudaemuRuntime {
    CudaemuThread* current;
    CudaemuDim blockDim, gridDim;
    void (*barrier)();        // of a block
    void (*clusterBarrier)(); // of a cluster
    // exchange returns the v of lane `from` of the warp; all 32 lanes must take
    // part in the same operation. A negative from returns nothing.
    unsigned long long (*exchange)(int kind, unsigned mask, unsigned long long v, int from);
    unsigned (*ballot)(unsigned mask, int yes);
    char* (*sharedOf)(unsigned rank); // shared memory of a block of the cluster
    int (*lane)();
};

// CudaemuKernel describes a kernel of a module, as cudaemu_kernel_NAME.
struct CudaemuKernel {
    void (*call)(void** arguments);
    int limit;        // threads of a block at most
    int cluster;      // blocks of a cluster
    int count;        // of arguments
    const int* sizes; // of the arguments, bytes
};
