// Runs a kernel: blocks (or clusters) in sequence, and each thread of a block until
// it has to wait. CUDAEMU_ORDER sets the order of the threads: forward, backward,
// or shuffle:SEED (a new order in each round). Kernels without races give the same
// bits in each.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <vector>

#include "fibre.h"
#include "runtime.h"

namespace launch {

struct Warp {
    int kind = 0, arrived = 0;
    unsigned generation = 0;
    unsigned long long slot[2][32];
    unsigned ballots[2] = {0, 0};
};

struct Barrier {
    int arrived = 0, alive = 0;
    unsigned generation = 0;
    bool complete() {
        if (arrived == 0 || arrived < alive) return false;
        arrived = 0;
        generation++;
        return true;
    }
};

struct Fibre {
    CudaemuThread thread;
    fibre::Context context;
    int lane, block; // block of the cluster
    Warp* warp;
    const unsigned* waits = nullptr; // a generation that has to pass
    unsigned past = 0;
    bool done = false;
};

struct Job {
    const CudaemuKernel* kernel;
    CudaemuRuntime* runtime;
    void** arguments;
    CudaemuDim grid, block;
    size_t shared;
    std::string name, failure;
};

inline Job* job;
inline Fibre* self;
inline fibre::Context scheduler;
inline std::vector<Fibre> fibres;
inline std::vector<Barrier> blocks;
inline Barrier cluster;
inline std::vector<std::vector<char>> sharedMemory;

inline void fail(const std::string& why) {
    if (job->failure.empty()) {
        char where[160];
        snprintf(where, sizeof where, " (block %u,%u,%u thread %u,%u,%u)", self->thread.block.x, self->thread.block.y,
                 self->thread.block.z, self->thread.thread.x, self->thread.thread.y, self->thread.thread.z);
        job->failure = why + where;
    }
    self->done = true;
    for (;;) fibre::change(self->context, scheduler);
}

inline void wait(const unsigned* generation, unsigned past) {
    self->waits = generation;
    self->past = past;
    fibre::change(self->context, scheduler);
}

inline void barrier() {
    Barrier& b = blocks[self->block];
    unsigned past = b.generation;
    b.arrived++;
    if (!b.complete()) wait(&b.generation, past);
}

inline void clusterBarrier() {
    unsigned past = cluster.generation;
    cluster.arrived++;
    if (!cluster.complete()) wait(&cluster.generation, past);
}

// meet synchronizes the lanes of a warp, all in the same operation.
inline int meet(int kind, unsigned mask) {
    Warp& w = *self->warp;
    if (mask != 0xffffffffu) fail("an operation of a part of a warp: the emulator knows full masks only");
    if (w.arrived > 0 && w.kind != kind) fail("lanes of a warp meet in different operations");
    w.kind = kind;
    return w.generation & 1;
}

inline void met() {
    Warp& w = *self->warp;
    unsigned past = w.generation;
    if (++w.arrived == 32) {
        w.arrived = 0;
        w.generation++;
        return;
    }
    wait(&w.generation, past);
}

inline unsigned long long exchange(int kind, unsigned mask, unsigned long long v, int from) {
    int side = meet(kind, mask);
    Warp& w = *self->warp;
    w.slot[side][self->lane] = v;
    met();
    return from < 0 ? 0 : w.slot[side][from];
}

inline unsigned ballot(unsigned mask, int yes) {
    int side = meet(3, mask);
    Warp& w = *self->warp;
    if (w.arrived == 0) w.ballots[side] = 0;
    if (yes) w.ballots[side] |= 1u << self->lane;
    met();
    return w.ballots[side];
}

inline char* sharedOf(unsigned rank) { return sharedMemory[rank].data() + 16; }
inline int lane() { return self->lane; }

inline void body() {
    job->kernel->call(job->arguments);
    self->done = true;
    for (;;) fibre::change(self->context, scheduler);
}

inline uint64_t seed;
inline uint64_t draw() {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

enum Order { forward, backward, shuffle };
inline Order orderOf() {
    const char* s = getenv("CUDAEMU_ORDER");
    if (!s || !*s || !strcmp(s, "forward")) return forward;
    if (!strcmp(s, "backward")) return backward;
    seed = 0x9e3779b97f4a7c15ull;
    if (const char* n = strchr(s, ':')) seed += strtoull(n + 1, nullptr, 10);
    return shuffle;
}

inline void arrange(std::vector<unsigned>& v, Order order) {
    if (order == backward) std::reverse(v.begin(), v.end());
    if (order == shuffle)
        for (size_t i = v.size(); i > 1; i--) std::swap(v[i - 1], v[draw() % i]);
}

// runCluster runs the blocks of a cluster to their end. Shared memory begins as NaN,
// between guards that must not change.
inline void runCluster(unsigned first, int size, int threads, Order order) {
    static fibre::Stacks stacks;
    const char guard = 0x5a;
    int warps = (threads + 31) / 32;
    static std::vector<Warp> all;
    all.assign((size_t)size * warps, Warp());
    blocks.assign(size, Barrier());
    cluster = Barrier();
    sharedMemory.resize(size);
    stacks.reserve((size_t)size * threads);
    fibres.assign((size_t)size * threads, Fibre());
    for (int b = 0; b < size; b++) {
        sharedMemory[b].assign(job->shared + 32, (char)0xff);
        memset(sharedMemory[b].data(), guard, 16);
        memset(sharedMemory[b].data() + 16 + job->shared, guard, 16);
        unsigned at = first + b;
        CudaemuDim index = {at % job->grid.x, at / job->grid.x % job->grid.y, at / job->grid.x / job->grid.y};
        for (int t = 0; t < threads; t++) {
            Fibre& f = fibres[(size_t)b * threads + t];
            unsigned u = t;
            f.thread = {{u % job->block.x, u / job->block.x % job->block.y, u / job->block.x / job->block.y}, index, (unsigned)b, sharedOf(b)};
            f.lane = t % 32;
            f.block = b;
            f.warp = &all[(size_t)b * warps + t / 32];
            fibre::prepare(f.context, stacks.at((size_t)b * threads + t), body);
        }
        blocks[b].alive = threads;
        cluster.alive += threads;
    }
    std::vector<unsigned> turns(fibres.size());
    for (size_t i = 0; i < turns.size(); i++) turns[i] = i;
    if (order == backward) arrange(turns, order);
    for (size_t left = fibres.size(); left > 0;) {
        if (order == shuffle) arrange(turns, order);
        bool ran = false;
        for (unsigned i : turns) {
            Fibre& f = fibres[i];
            if (f.done || (f.waits && *f.waits == f.past)) continue;
            f.waits = nullptr;
            ran = true;
            self = &f;
            job->runtime->current = &f.thread;
            fibre::change(scheduler, f.context);
            if (!job->failure.empty()) return;
            if (f.done) {
                left--;
                blocks[f.block].alive--;
                blocks[f.block].complete();
                cluster.alive--;
                cluster.complete();
            }
        }
        if (!ran) {
            for (Fibre& f : fibres)
                if (!f.done) self = &f;
            char where[100];
            snprintf(where, sizeof where, "%zu threads wait for others that never come: one of them is thread %u of block %u", left,
                     self->thread.thread.x, self->thread.block.x);
            job->failure = where;
            return;
        }
    }
    for (int b = 0; b < size; b++)
        for (int i = 0; i < 16; i++)
            if (sharedMemory[b][i] != guard || sharedMemory[b][16 + job->shared + i] != guard) {
                job->failure = "a write outside of shared memory";
                return;
            }
}

inline void* worker(void*) {
    Order order = orderOf();
    unsigned n = job->grid.x * job->grid.y * job->grid.z;
    int threads = job->block.x * job->block.y * job->block.z, size = job->kernel->cluster;
    if (n % size) {
        job->failure = "the grid is no multiple of the cluster";
        return nullptr;
    }
    std::vector<unsigned> clusters(n / size);
    for (size_t i = 0; i < clusters.size(); i++) clusters[i] = i * size;
    arrange(clusters, order);
    for (unsigned first : clusters) {
        runCluster(first, size, threads, order);
        if (!job->failure.empty()) return nullptr;
    }
    return nullptr;
}

// run runs a kernel on a thread of its own without signals, because the Go runtime
// does not know the fibres' stacks. It returns the error.
inline std::string run(Job& j) {
    job = &j;
    j.runtime->blockDim = j.block;
    j.runtime->gridDim = j.grid;
    j.runtime->barrier = barrier;
    j.runtime->clusterBarrier = clusterBarrier;
    j.runtime->exchange = exchange;
    j.runtime->ballot = ballot;
    j.runtime->sharedOf = sharedOf;
    j.runtime->lane = lane;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_t t;
    int r = pthread_create(&t, nullptr, worker, nullptr);
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (r != 0) return "no thread";
    pthread_join(t, nullptr);
    return j.failure;
}

} // namespace launch
