// What a compiled kernel module and the emulated driver share.
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

// CudaemuRuntime is what a kernel calls. The driver writes its address into the
// module's cudaemuRuntime when it loads it.
struct CudaemuRuntime {
    CudaemuThread* current;
    CudaemuDim blockDim, gridDim;
    void (*barrier)();        // of a block
    void (*clusterBarrier)(); // of a cluster
    // exchange hands v over and returns what the lane `from` of the warp hands
    // over in the same operation; all 32 lanes take part, in one kind of
    // operation. A negative from asks for nothing.
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
