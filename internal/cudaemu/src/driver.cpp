// libcuda.so.1 on a CPU: device memory is the host's, between guards and filled
// with NaN; a stream is a queue that runs at the next wait, as late as a real one
// may; a module is a shared object of the emulated compiler.
//
// CUDAEMU_SM (90), CUDAEMU_SMS (4), CUDAEMU_SHARED (232448), CUDAEMU_MEMORY
// (bytes) and CUDAEMU_CLUSTERS (that run at once; below 0: the query fails) set the
// card's properties, CUDAEMU_CARDS=0 removes it, CUDAEMU_DRIVER (12040) sets the
// driver's version. CUDAEMU_ORDER: see launch.h. CUDAEMU_EAGER=1 runs work
// immediately; CUDAEMU_TRACE=1 writes launches to stderr.
#include "state.h"

// --- modules

struct Module;
struct Function {
    const CudaemuKernel* kernel;
    Module* module;
    std::string name;
    int maxShared = 48 << 10;
};

struct Module {
    void* handle;
    CudaemuRuntime runtime{};
    std::map<std::string, Function> functions;
};

#define API extern "C" CUresult
#define BEGIN                                            \
    std::lock_guard<std::recursive_mutex> hold(lock);    \
    if (CUresult notReady = ready()) return notReady;

API cuInit(unsigned) {
    if (number("CUDAEMU_CARDS", 1) == 0) return NO_DEVICE;
    initialized = true;
    return OK;
}
API cuDriverGetVersion(int* v) { return *v = number("CUDAEMU_DRIVER", 12040), OK; }
API cuDeviceGetCount(int* n) { return *n = 1, OK; }
API cuDeviceGet(int* d, int ordinal) { return ordinal ? INVALID_DEVICE : (*d = 0, OK); }
API cuDeviceGetName(char* name, int n, int) { return snprintf(name, n, "emulated card"), OK; }
API cuDeviceTotalMem_v2(size_t* n, int) { return *n = number("CUDAEMU_MEMORY", 2ll << 30), OK; }
API cuDeviceGetAttribute(int* v, int attribute, int) {
    int sm = number("CUDAEMU_SM", 90);
    switch (attribute) {
    case 1: *v = 1024; break;                                   // threads of a block
    case 8: *v = 48 << 10; break;                               // shared memory of a block
    case 10: *v = 32; break;                                    // warp
    case 16: *v = number("CUDAEMU_SMS", 4); break;              // multiprocessors
    case 75: *v = sm / 10; break;
    case 76: *v = sm % 10; break;
    case 81: *v = 228 << 10; break;                             // shared memory of a multiprocessor
    case 95: *v = 0; break;                                     // cooperative launch
    case 97: *v = number("CUDAEMU_SHARED", 227 << 10); break;   // shared memory of a block that opts in
    default: *v = 0;
    }
    return OK;
}
API cuDevicePrimaryCtxRetain(void** ctx, int) { return *ctx = (void*)&zero, OK; }
API cuDevicePrimaryCtxRelease_v2(int) { return OK; }
API cuCtxSetCurrent(void* ctx) { return current = ctx != nullptr, OK; }
API cuCtxSynchronize() {
    BEGIN
    if (capturing()) return STREAM_CAPTURE_UNSUPPORTED;
    return drainAll();
}

API cuMemAlloc_v2(CUdeviceptr* p, size_t n) {
    BEGIN
    return allocate(p, n, false);
}
API cuMemAllocHost_v2(void** p, size_t n) {
    BEGIN
    CUdeviceptr q;
    CUresult r = allocate(&q, n, true);
    if (!r) *p = (void*)q;
    return r;
}
static CUresult release(CUdeviceptr p, bool host) {
    BEGIN
    if (!p) return OK;
    if (capturing()) return STREAM_CAPTURE_UNSUPPORTED;
    if (CUresult r = drainAll()) return r;
    auto m = memory.find(p);
    if (m == memory.end() || m->second.host != host) return INVALID_VALUE;
    mprotect(m->second.map + page, m->second.mapped - 2 * page, PROT_READ);
    if (!intact(p, m->second)) {
        Reach reach;
        return checkGuards();
    }
    inUse -= m->second.size;
    munmap(m->second.map, m->second.mapped);
    memory.erase(m);
    return OK;
}
API cuMemFree_v2(CUdeviceptr p) { return release(p, false); }
API cuMemFreeHost(void* p) { return release((CUdeviceptr)p, true); }
API cuMemGetInfo_v2(size_t* free, size_t* total) {
    BEGIN
    *total = number("CUDAEMU_MEMORY", 2ll << 30);
    *free = *total - inUse;
    return OK;
}

API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, void* stream) {
    BEGIN
    if (!holds(to, n, false)) return INVALID_VALUE;
    Stream* s = streamOf(stream);
    if (s && s->capture && !holds((CUdeviceptr)from, n, true)) return STREAM_CAPTURE_UNSUPPORTED;
    // Read when it runs, also memory that is not pinned: a driver may.
    return submit(stream, [=] { return memcpy((void*)to, from, n), (CUresult)OK; });
}
API cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, void* stream) {
    BEGIN
    if (!holds(from, n, false)) return INVALID_VALUE;
    Work w = [=] { return memcpy(to, (void*)from, n), (CUresult)OK; };
    if (holds((CUdeviceptr)to, n, true)) return submit(stream, w);
    Stream* s = streamOf(stream);
    if (s && s->capture) return STREAM_CAPTURE_UNSUPPORTED;
    if (CUresult r = submit(stream, w)) return r;
    return s ? drain(s) : INVALID_VALUE; // into pageable memory: done when it returns
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, void* stream) {
    BEGIN
    if (!holds(to, n, false) || !holds(from, n, false)) return INVALID_VALUE;
    return submit(stream, [=] { return memmove((void*)to, (void*)from, n), (CUresult)OK; });
}
API cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, void* stream) {
    BEGIN
    if (!holds(to, 4 * n, false) || to % 4) return INVALID_VALUE;
    return submit(stream, [=] { return std::fill_n((unsigned*)to, n, v), (CUresult)OK; });
}
API cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, void* stream) {
    BEGIN
    if (!holds(to, n, false)) return INVALID_VALUE;
    return submit(stream, [=] { return memset((void*)to, v, n), (CUresult)OK; });
}
API cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) {
    CUresult r = cuMemcpyHtoDAsync_v2(to, from, n, nullptr);
    return r ? r : cuCtxSynchronize();
}
API cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) {
    CUresult r = cuCtxSynchronize();
    if (!r) r = cuMemcpyDtoHAsync_v2(to, from, n, nullptr);
    return r ? r : cuCtxSynchronize();
}
API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) { return cuMemcpyDtoDAsync_v2(to, from, n, nullptr); }
API cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) { return cuMemsetD32Async(to, v, n, nullptr); }
API cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) { return cuMemsetD8Async(to, v, n, nullptr); }

API cuStreamCreate(void** s, unsigned) {
    BEGIN
    Stream* made = new Stream;
    streams[made].reset(made);
    *s = made;
    return OK;
}
API cuStreamSynchronize(void* stream) {
    BEGIN
    Stream* s = streamOf(stream);
    if (!s) return INVALID_VALUE;
    if (s->capture) return STREAM_CAPTURE_UNSUPPORTED;
    return drain(s);
}
API cuStreamQuery(void* stream) { return cuStreamSynchronize(stream); }
API cuStreamDestroy_v2(void* stream) {
    BEGIN
    Stream* s = streamOf(stream);
    if (!s || s == &zero) return INVALID_VALUE;
    CUresult r = drain(s);
    streams.erase(s);
    return r;
}
API cuStreamBeginCapture_v2(void* stream, int) {
    BEGIN
    Stream* s = streamOf(stream);
    if (!s || s == &zero || s->capture) return INVALID_VALUE;
    if (CUresult r = drain(s)) return r;
    s->capture = new Graph;
    return OK;
}
API cuStreamEndCapture(void* stream, void** graph) {
    BEGIN
    Stream* s = streamOf(stream);
    if (!s || !s->capture) return INVALID_VALUE;
    *graph = s->capture;
    s->capture = nullptr;
    return OK;
}
API cuStreamIsCapturing(void* stream, int* status) {
    BEGIN
    Stream* s = streamOf(stream);
    if (!s) return INVALID_VALUE;
    *status = s->capture != nullptr;
    return OK;
}
API cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
    BEGIN
    *exec = new Graph(*(Graph*)graph);
    return OK;
}
API cuGraphLaunch(void* exec, void* stream) {
    BEGIN
    Graph g = *(Graph*)exec;
    return submit(stream, [=]() -> CUresult {
        for (const Work& w : g.work)
            if (CUresult r = w()) return r;
        return OK;
    });
}
API cuGraphExecDestroy(void* exec) { return delete (Graph*)exec, OK; }
API cuGraphDestroy(void* graph) { return delete (Graph*)graph, OK; }

API cuEventCreate(void** e, unsigned) { return *e = new Event, OK; }
API cuEventDestroy_v2(void* e) {
    BEGIN
    CUresult r = drainAll(); // its record may be queued
    delete (Event*)e;
    return r;
}
API cuEventRecord(void* e, void* stream) {
    BEGIN
    return submit(stream, [=] {
        ((Event*)e)->at = std::chrono::steady_clock::now();
        ((Event*)e)->recorded = true;
        return (CUresult)OK;
    });
}
API cuEventSynchronize(void*) { return cuCtxSynchronize(); }
API cuEventQuery(void*) { return cuCtxSynchronize(); }
API cuEventElapsedTime(float* ms, void* a, void* b) {
    BEGIN
    if (!((Event*)a)->recorded || !((Event*)b)->recorded) return 400;
    *ms = std::chrono::duration<float, std::milli>(((Event*)b)->at - ((Event*)a)->at).count();
    return OK;
}
API cuStreamWaitEvent(void*, void*, unsigned) { return cuCtxSynchronize(); }

// The image is a shared object of the emulated compiler; its header has its length.
API cuModuleLoadData(void** module, const void* image) {
    BEGIN
    if (capturing()) return STREAM_CAPTURE_UNSUPPORTED;
    const Elf64_Ehdr* h = (const Elf64_Ehdr*)image;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG)) return INVALID_IMAGE;
    size_t size = h->e_shoff + (size_t)h->e_shentsize * h->e_shnum;
    char path[] = "/tmp/cudaemu-module-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, image, size) != (ssize_t)size) return OUT_OF_MEMORY;
    close(fd);
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    if (!handle) {
        complain(dlerror());
        return INVALID_IMAGE;
    }
    auto runtime = (CudaemuRuntime**)dlsym(handle, "cudaemuRuntime");
    auto version = (int*)dlsym(handle, "cudaemuVersion");
    if (!runtime || !version || *version != CUDAEMU_VERSION) {
        dlclose(handle);
        return INVALID_IMAGE;
    }
    Module* m = new Module;
    m->handle = handle;
    *runtime = &m->runtime;
    *module = m;
    return OK;
}
API cuModuleLoadDataEx(void** module, const void* image, unsigned, void*, void*) { return cuModuleLoadData(module, image); }
API cuModuleUnload(void* module) {
    BEGIN
    CUresult r = drainAll();
    dlclose(((Module*)module)->handle);
    delete (Module*)module;
    return r;
}
API cuModuleGetFunction(void** f, void* module, const char* name) {
    BEGIN
    Module* m = (Module*)module;
    auto kernel = (const CudaemuKernel*)dlsym(m->handle, (std::string("cudaemu_kernel_") + name).c_str());
    if (!kernel) return NOT_FOUND;
    Function& to = m->functions[name];
    to.kernel = kernel;
    to.module = m;
    to.name = name;
    *f = &to;
    return OK;
}
API cuFuncSetAttribute(void* f, int attribute, int v) {
    BEGIN
    if (attribute == 8) {
        if (v > number("CUDAEMU_SHARED", 227 << 10)) return INVALID_VALUE;
        ((Function*)f)->maxShared = v;
    }
    return OK;
}
API cuFuncGetAttribute(int* v, int attribute, void* f) {
    *v = attribute == 0 ? ((Function*)f)->kernel->limit : 0;
    return OK;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int threads, size_t shared) {
    *n = std::min<long long>(2048 / std::max(1, threads), (228 << 10) / (long long)(shared + 1024));
    return OK;
}

struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void* stream;
    void* attributes;
    unsigned count;
};
API cuOccupancyMaxActiveClusters(int* n, void* f, const LaunchConfig* c) {
    Function* fn = (Function*)f;
    const CudaemuKernel* k = fn->kernel;
    if (c->count || c->grid[0] % k->cluster || (int)c->shared > fn->maxShared) return INVALID_VALUE;
    int threads = c->block[0] * c->block[1] * c->block[2];
    if (threads > k->limit) return LAUNCH_OUT_OF_RESOURCES;
    int most = number("CUDAEMU_CLUSTERS", number("CUDAEMU_SMS", 4) / k->cluster);
    if (most < 0) return NOT_SUPPORTED;
    *n = most;
    return OK;
}

API cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** arguments, void** extra) {
    BEGIN
    Function* fn = (Function*)f;
    const CudaemuKernel* k = fn->kernel;
    if (!gx || !gy || !gz || !bx || !by || !bz || extra || gy > 65535 || gz > 65535) return INVALID_VALUE;
    if ((int)shared > fn->maxShared || gx % k->cluster) return INVALID_VALUE;
    if ((int)(bx * by * bz) > k->limit) return LAUNCH_OUT_OF_RESOURCES;
    auto values = std::make_shared<std::vector<std::vector<char>>>();
    for (int i = 0; i < k->count; i++) {
        const char* p = (const char*)arguments[i];
        values->emplace_back(p, p + k->sizes[i]);
    }
    CudaemuDim grid = {gx, gy, gz}, block = {bx, by, bz};
    return submit(stream, [=]() -> CUresult {
        std::vector<void*> pointers;
        for (auto& v : *values) pointers.push_back(v.data());
        if (number("CUDAEMU_TRACE", 0))
            fprintf(stderr, "cudaemu: %s grid %u,%u,%u block %u,%u,%u shared %u\n", fn->name.c_str(), gx, gy, gz, bx, by, bz, shared);
        launch::Job job{k, &fn->module->runtime, pointers.data(), grid, block, shared, fn->name, ""};
        std::string why = launch::run(job);
        if (!why.empty()) return stick(LAUNCH_FAILED, fn->name + ": " + why);
        return OK;
    });
}
API cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**) {
    return NOT_SUPPORTED;
}

#include "errors.h"

// cudaemu_set changes the environment that the emulator reads, for callers with a
// copy of their own (Go without cgo). An empty value unsets it.
extern "C" void cudaemu_set(const char* name, const char* value) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    setenv(name, value, 1);
}

// cudaemu_reset clears a sticky error, which a real card can't, and the queues.
extern "C" void cudaemu_reset() {
    std::lock_guard<std::recursive_mutex> hold(lock);
    broken = OK;
    zero.queue.clear();
    for (auto& s : streams) s.first->queue.clear();
    Reach reach;
    for (auto& m : memory) { // restore the guards
        Block& b = m.second;
        memset(b.map + page + b.size, canary, b.mapped - 2 * page - b.size);
    }
}
