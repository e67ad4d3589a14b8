// Persistent kernels of the GRU over whole sequences. Sequences are independent,
// so a block runs a tile of them through all steps without grid barriers. W_hh
// stays in registers, distributed over the threads of a block, or of a cluster of
// blocks if it is too large for one multiprocessor. States are in shared memory.
//
// Macros, set by GRUPlan.Module:
//
//	GRU_HIDDEN    H
//	GRU_CLUSTER   blocks of a cluster; each owns GRU_UNITS hidden units
//	GRU_UNITS     a multiple of 32, so that warps are full
//	FORWARD_SLICES, BACKWARD_SLICES  lanes that share a dot product
//
// Forward pass: thread (unit j, slice s) holds slice s of row j of W_hr, W_hz and
// W_hn. For R sequences at a time it computes its partial sums of the three dot
// products from states in shared memory, with 12 multiply-adds for each 16 bytes
// read. Then the lanes of a unit exchange partial sums: each gets all three dot
// products of one sequence and computes its gates. Backward pass: the thread
// holds slice s of two columns of W_hh, and each lane gets the gradient of one
// unit of one sequence.

#define STATES (GRU_UNITS * GRU_CLUSTER) // H, rounded up
#define PAD 8                            // floats between rows in shared memory, against bank conflicts

// Number of float4 of k values in a slice.
#define SHARE(k, slices) ((k) / (4 * (slices)))

#if GRU_CLUSTER > 1
#define CLUSTER __cluster_dims__(GRU_CLUSTER, 1, 1)
#else
#define CLUSTER
#endif

#if GRU_CLUSTER == 1
DEVICE int clusterRank() { return 0; }
DEVICE void clusterSync() { __syncthreads(); }
DEVICE void clusterStore(float* p, int, float v) { *p = v; }
#elif defined(GRPO_EMULATED)
DEVICE int clusterRank() { return emulatedClusterRank(); }
DEVICE void clusterSync() { emulatedClusterSync(); }
DEVICE void clusterStore(float* p, int rank, float v) { emulatedClusterStore(p, rank, v); }
#else
DEVICE int clusterRank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
// clusterSync is a barrier of all threads of the cluster and makes their writes
// visible.
DEVICE void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// clusterStore writes to block rank's shared memory, at the address that p has in
// this block.
DEVICE void clusterStore(float* p, int rank, float v) {
    unsigned local = (unsigned)__cvta_generic_to_shared(p), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(local), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(v) : "memory");
}
#endif

// publish writes a value to the shared memory of all blocks of the cluster.
DEVICE void publish(float* p, float v) {
#pragma unroll
    for (int c = 0; c < GRU_CLUSTER; c++) clusterStore(p, c, v);
}

// Prefetched inputs of one unit of one step.
struct Input {
    float r, z, n;
};

template <int R>
DEVICE void forward(const float* gi, const int* ids, const float* whh, const float* bih, const float* bhh,
                    const float* h0, const int* active, const int* offset, int steps, int tile,
                    float* out, float* save, float* before) {
    const int H = GRU_HIDDEN, S = FORWARD_SLICES, SH = SHARE(STATES, S), LD = STATES + PAD;
    const int s = threadIdx.x % S, local = threadIdx.x / S;
    const int block = clusterRank(), j = block * GRU_UNITS + local;
    const bool unit = j < H;
    const int item = itemOf<R>(s);
    const bool owner = s < R && unit; // first of the lanes with equal sums

    float w[3][SH][4];
#pragma unroll
    for (int g = 0; g < 3; g++)
#pragma unroll
        for (int i = 0; i < SH; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int k = 4 * (i * S + s) + e;
                w[g][i][e] = unit && k < H ? whh[(long long)(g * H + j) * H + k] : 0.0f;
            }
    float br = 0, bz = 0, bn = 0, bnh = 0;
    if (unit) {
        br = bih[j] + bhh[j];
        bz = bih[H + j] + bhh[H + j];
        bn = bih[2 * H + j];
        bnh = bhh[2 * H + j];
    }

    float* now = (float*)SHARED_MEMORY; // tile×LD: the states before the step
    float* next = now + tile * LD;
    const int lo = blockIdx.x / GRU_CLUSTER * tile, n0 = active[0];
    const int rows = min(tile, n0 - lo);
    for (int i = threadIdx.x; i < tile * LD; i += blockDim.x) {
        int r = i / LD, k = i % LD;
        bool in = r < rows && k < H;
        float v = in && h0 ? h0[(long long)(lo + r) * H + k] : 0.0f;
        now[i] = v;
        next[i] = 0;
        if (in && block == 0) out[(long long)(lo + r) * H + k] = v;
    }
    clusterSync();

    // fetch loads the inputs of this thread's unit for its row of those from q on.
    auto fetch = [&](int in, int n, int q) {
        Input x = {0, 0, 0};
        int r = q + item;
        if (owner && r < n) {
            const float* from = gi + (long long)(ids ? ids[in + r] : in + r) * (3 * H) + j;
            x.r = from[0];
            x.z = from[H];
            x.n = from[2 * H];
        }
        return x;
    };

    int n = steps > 0 ? min(active[1] - lo, rows) : 0;
    int at = n > 0 ? offset[1] + lo : 0; // the row of the states of the step
    Input ahead = fetch(at - n0, n, 0);
    for (int step = 1; n > 0; step++) {
        int following = step < steps ? min(active[step + 1] - lo, rows) : 0;
        int followingAt = following > 0 ? offset[step + 1] + lo : 0;
        for (int q = 0; q < n; q += R) {
            Input x = ahead;
            if (q + R < n)
                ahead = fetch(at - n0, n, q + R);
            else
                ahead = fetch(followingAt - n0, following, 0);
            float sum[R][3];
#pragma unroll
            for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = sum[r][2] = 0;
            const float* states = now + q * LD + 4 * s;
#pragma unroll
            for (int i = 0; i < SH; i++)
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float4 a = *(const float4*)(states + r * LD + 4 * S * i);
#pragma unroll
                    for (int g = 0; g < 3; g++) multiplyAdd(sum[r][g], a, w[g][i]);
                }
            exchange<R, 3, S>(sum, s);
            int r = q + item;
            if (owner && r < n) {
                float old = now[r * LD + j];
                float reset = sigmoid(x.r + sum[0][0] + br);
                float z = sigmoid(x.z + sum[0][1] + bz);
                float ghn = sum[0][2] + bnh;
                float c = tanhf(reset * ghn + x.n + bn);
                float h = z * (old - c) + c;
                publish(next + r * LD + j, h);
                out[(long long)(at + r) * H + j] = h;
                long long in = at - n0 + r;
                if (before) before[in * H + j] = old;
                if (save) {
                    float* to = save + in * (4 * H) + j;
                    to[0] = reset;
                    to[H] = z;
                    to[2 * H] = c;
                    to[3 * H] = ghn;
                }
            }
        }
        clusterSync();
        float* swap = now;
        now = next;
        next = swap;
        n = following;
        at = followingAt;
    }
}

#define FORWARD_THREADS (GRU_UNITS * FORWARD_SLICES)
#define FORWARD_ARGUMENTS                                                                                      \
    const float *gi, const int *ids, const float *whh, const float *bih, const float *bhh, const float *h0,    \
        const int *active, const int *offset, int steps, int tile, float *out, float *save, float *before

KERNEL_OF_BLOCKS(FORWARD_THREADS, 512 / FORWARD_THREADS) CLUSTER gru_forward(FORWARD_ARGUMENTS) {
    forward<4>(gi, ids, whh, bih, bhh, h0, active, offset, steps, tile, out, save, before);
}

KERNEL_OF_BLOCKS(FORWARD_THREADS, 512 / FORWARD_THREADS) CLUSTER gru_forward_narrow(FORWARD_ARGUMENTS) {
    forward<2>(gi, ids, whh, bih, bhh, h0, active, offset, steps, tile, out, save, before);
}
