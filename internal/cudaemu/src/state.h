// The state of the emulated driver: memory, streams and their work, and the sticky
// error.
#pragma once
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launch.h"

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef std::function<CUresult()> Work;

enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
    STREAM_CAPTURE_INVALIDATED = 901, STREAM_CAPTURE_UNSUPPORTED = 900
};

static long long number(const char* name, long long otherwise) {
    const char* s = getenv(name);
    return s && *s ? atoll(s) : otherwise;
}

static void complain(const std::string& what) { fprintf(stderr, "cudaemu: %s\n", what.c_str()); }

// --- memory

static const unsigned char canary = 0xa5;
static const size_t page = 4096;

struct Block {
    char* map;
    size_t mapped, size;
    bool host;
};

struct Graph {
    std::vector<Work> work;
};

struct Stream {
    std::vector<Work> queue;
    Graph* capture = nullptr;
};

struct Event {
    std::chrono::steady_clock::time_point at;
    bool recorded = false;
};

static std::recursive_mutex lock;
static std::map<CUdeviceptr, Block> memory;
static size_t inUse;
static std::map<Stream*, std::unique_ptr<Stream>> streams;
static Stream zero; // the stream NULL
static CUresult broken; // the sticky error
static bool initialized;
static thread_local bool current; // a context belongs to a thread

// Device memory can be reached only while a Reach exists: the program that reads it by an address of
// its own ends, as it would with a card.
struct Reach {
    Reach() { protect(PROT_READ | PROT_WRITE); }
    ~Reach() { protect(PROT_NONE); }
    static void protect(int how) {
        for (auto& m : memory)
            if (!m.second.host) mprotect(m.second.map + page, m.second.mapped - 2 * page, how);
    }
};

static CUresult stick(CUresult r, const std::string& why) {
    complain(why);
    if (!broken) broken = r;
    return r;
}

static bool capturing() {
    for (auto& s : streams)
        if (s.first->capture) return true;
    return false;
}

static CUresult allocate(CUdeviceptr* to, size_t size, bool host) {
    if (!size) return INVALID_VALUE;
    if (capturing()) return STREAM_CAPTURE_UNSUPPORTED;
    if (inUse + size > (size_t)number("CUDAEMU_MEMORY", 2ll << 30)) return OUT_OF_MEMORY;
    size_t body = (size + 64 + page - 1) / page * page, mapped = body + 2 * page;
    char* map = (char*)mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return OUT_OF_MEMORY;
    mprotect(map + page, body, PROT_READ | PROT_WRITE);
    memset(map + page, 0xff, size); // NaN, -1
    memset(map + page + size, canary, body - size);
    if (!host) mprotect(map + page, body, PROT_NONE);
    *to = (CUdeviceptr)(map + page);
    memory[*to] = {map, mapped, size, host};
    inUse += size;
    return OK;
}

static bool intact(CUdeviceptr p, const Block& b) {
    const unsigned char* end = (const unsigned char*)b.map + b.mapped - page;
    for (const unsigned char* c = (const unsigned char*)p + b.size; c < end; c++)
        if (*c != canary) return false;
    return true;
}

static CUresult checkGuards() {
    for (auto& m : memory)
        if (!intact(m.first, m.second)) {
            char text[120];
            snprintf(text, sizeof text, "a write beyond the end of an allocation of %zu bytes", m.second.size);
            return stick(ILLEGAL_ADDRESS, text);
        }
    return OK;
}

// holds says whether n bytes at p are in one allocation.
static bool holds(CUdeviceptr p, size_t n, bool host) {
    auto m = memory.upper_bound(p);
    if (m == memory.begin()) return false;
    --m;
    return m->second.host == host && p + n <= m->first + m->second.size;
}

// --- streams

static Stream* streamOf(void* s) {
    if (!s || s == (void*)1 || s == (void*)2) return &zero;
    auto m = streams.find((Stream*)s);
    return m == streams.end() ? nullptr : m->first;
}

static CUresult drain(Stream* s) {
    if (s->queue.empty()) return broken;
    std::vector<Work> queue;
    queue.swap(s->queue);
    Reach reach;
    for (Work& w : queue) {
        if (broken) return broken;
        CUresult r = w();
        if (r) return r;
    }
    if (broken) return broken;
    return checkGuards();
}

static CUresult drainAll() {
    CUresult r = drain(&zero);
    for (auto& s : streams)
        if (!r) r = drain(s.first);
    return r;
}

// cudaemu_submit adds work to a stream or to the graph that it captures.
extern "C" CUresult cudaemu_submit(void* stream, Work* work) {
    std::lock_guard<std::recursive_mutex> hold(lock);
    if (broken) return broken;
    Stream* s = streamOf(stream);
    if (!s) return INVALID_VALUE;
    if (s->capture) {
        s->capture->work.push_back(*work);
        return OK;
    }
    s->queue.push_back(*work);
    return number("CUDAEMU_EAGER", 0) ? drain(s) : OK;
}

static CUresult submit(void* stream, Work w) { return cudaemu_submit(stream, &w); }

static CUresult ready() {
    if (!initialized) return NOT_INITIALIZED;
    if (!current) return INVALID_CONTEXT;
    return broken;
}
