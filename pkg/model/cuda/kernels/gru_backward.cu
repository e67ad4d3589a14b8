// The backward pass of the GRU over whole sequences: see gru.cu, which precedes it.

// Prefetched inputs of the backward pass of one unit's gates.
struct Cell {
    float r, z, c, ghn, old, dout;
};

template <int R>
DEVICE void backward(const float* dout, const float* whh, const float* states, const int* active, const int* offset,
                     int steps, int tile, float* gates, float* dh0, float* parts) {
    const int H = GRU_HIDDEN, S = BACKWARD_SLICES, SH = SHARE(3 * STATES, S), LD = 3 * STATES + PAD;
    const int N = 2 * R; // items: two units of R rows
    const int s = threadIdx.x % S, pair = threadIdx.x / S;
    const int block = clusterRank(), item = itemOf<N>(s), local = 2 * pair + item % 2;
    const int first = block * GRU_UNITS + 2 * pair, j = block * GRU_UNITS + local, row = item / 2;
    const bool owner = s < N && j < H;

    float w[2][SH][4];
#pragma unroll
    for (int c = 0; c < 2; c++)
#pragma unroll
        for (int i = 0; i < SH; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int k = 4 * (i * S + s) + e, gate = k / STATES, from = k % STATES;
                w[c][i][e] = first + c < H && from < H ? whh[(long long)(gate * H + from) * H + first + c] : 0.0f;
            }

    float* now = (float*)SHARED_MEMORY;        // tile×LD: da_r, da_z, da_n·r of the step
    float* next = now + tile * LD;
    float* carry = next + tile * LD;           // tile×GRU_UNITS: each element belongs to one thread
    float* own = carry + row * GRU_UNITS + local;
    const int lo = blockIdx.x / GRU_CLUSTER * tile, n0 = active[0];
    const int rows = min(tile, n0 - lo);
    for (int i = threadIdx.x; i < 2 * tile * LD; i += blockDim.x) now[i] = 0;
    for (int i = threadIdx.x; i < tile * GRU_UNITS; i += blockDim.x) carry[i] = 0;
    clusterSync();

    auto fetch = [&](int at, int before, int n, int q) {
        Cell x = {0, 0, 0, 0, 0, 0};
        int r = q + row;
        if (owner && r < n) {
            const float* from = gates + (long long)(at - n0 + r) * (4 * H) + j;
            x.r = from[0];
            x.z = from[H];
            x.c = from[2 * H];
            x.ghn = from[3 * H];
            x.old = states[(long long)(before + r) * H + j];
            x.dout = dout[(long long)(at + r) * H + j];
        }
        return x;
    };

    int last = 0;
    while (last < steps && active[last + 1] > lo) last++;
    float br = 0, bz = 0, bn = 0, bnh = 0;
    int n = last > 0 ? min(active[last] - lo, rows) : 0;
    int at = last > 0 ? offset[last] + lo : 0, below = last > 0 ? offset[last - 1] + lo : 0;
    Cell ahead = fetch(at, below, n, 0);
    for (int step = last; step > 0; step--) {
        int followingBelow = step > 1 ? offset[step - 2] + lo : 0;
        int following = step > 1 ? min(active[step - 1] - lo, rows) : 0;
        for (int q = 0; q < n; q += R) {
            Cell x = ahead;
            if (q + R < n)
                ahead = fetch(at, below, n, q + R);
            else
                ahead = fetch(below, followingBelow, following, 0);
            int r = q + row;
            if (owner && r < n) {
                float g = own[q * GRU_UNITS] + x.dout;
                float dan = g * (1 - x.z) * (1 - x.c * x.c);
                float daz = g * (x.old - x.c) * (x.z * (1 - x.z));
                float dar = dan * x.ghn * (x.r * (1 - x.r));
                float dnh = dan * x.r;
                own[q * GRU_UNITS] = g * x.z;
                float* to = now + r * LD + j;
                publish(to, dar);
                publish(to + STATES, daz);
                publish(to + 2 * STATES, dnh);
                float* d = gates + (long long)(at - n0 + r) * (4 * H) + j;
                d[0] = dar;
                d[H] = daz;
                d[2 * H] = dan;
                d[3 * H] = dnh;
                br += dar;
                bz += daz;
                bn += dan;
                bnh += dnh;
            }
        }
        clusterSync();
        for (int q = 0; q < n; q += R) {
            float sum[N][1];
#pragma unroll
            for (int i = 0; i < N; i++) sum[i][0] = 0;
            const float* from = now + q * LD + 4 * s;
#pragma unroll
            for (int i = 0; i < SH; i++)
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float4 a = *(const float4*)(from + r * LD + 4 * S * i);
                    multiplyAdd(sum[2 * r][0], a, w[0][i]);
                    multiplyAdd(sum[2 * r + 1][0], a, w[1][i]);
                }
            exchange<N, 1, S>(sum, s);
            if (owner && q + row < n) own[q * GRU_UNITS] += sum[0][0];
        }
        float* swap = now;
        now = next;
        next = swap;
        n = following;
        at = below;
        below = followingBelow;
    }
    if (dh0 && owner)
        for (int r = row; r < rows; r += R)
            dh0[(long long)(lo + r) * H + j] = own[(r - row) * GRU_UNITS] + dout[(long long)(lo + r) * H + j];

    if (!parts) return;
    // Column sums over the R rows of threads, in order. Only this block uses its
    // carry, and no block writes to another's shared memory any more.
    __syncthreads();
    float* sums = carry;
    float v[4] = {br, bz, bn, bnh};
    for (int gate = 0; gate < 4; gate++) {
        if (s < N) sums[row * GRU_UNITS + local] = v[gate];
        __syncthreads();
        int unit = block * GRU_UNITS + threadIdx.x;
        if (threadIdx.x < GRU_UNITS && unit < H) {
            float sum = 0;
            for (int r = 0; r < R; r++) sum += sums[r * GRU_UNITS + threadIdx.x];
            parts[(long long)(blockIdx.x / GRU_CLUSTER) * (4 * H) + gate * H + unit] = sum;
        }
        __syncthreads();
    }
}

#define BACKWARD_THREADS (GRU_UNITS / 2 * BACKWARD_SLICES)
#define BACKWARD_ARGUMENTS                                                                               \
    const float *dout, const float *whh, const float *states, const int *active, const int *offset,      \
        int steps, int tile, float *gates, float *dh0, float *parts

KERNEL_OF_BLOCKS(BACKWARD_THREADS, 512 / BACKWARD_THREADS) CLUSTER gru_backward(BACKWARD_ARGUMENTS) {
    backward<4>(dout, whh, states, active, offset, steps, tile, gates, dh0, parts);
}

KERNEL_OF_BLOCKS(BACKWARD_THREADS, 512 / BACKWARD_THREADS) CLUSTER gru_backward_narrow(BACKWARD_ARGUMENTS) {
    backward<2>(dout, whh, states, active, offset, steps, tile, gates, dh0, parts);
}
