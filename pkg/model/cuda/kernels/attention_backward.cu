// The backward pass of attention.cu. With P = exp(scale·q·kᵀ - lse), dP = dout·vᵀ and
// delta = Σ out·dout of a row,
//
//	dS = P∘(dP - delta)    dq = scale·dS·k    dk = scale·dSᵀ·q    dv = Pᵀ·dout
//
// Probabilities are computed again, for queries by tiles of queries and for keys and values by
// tiles of keys, so that no two blocks add to the same number.

constexpr int DELTA_LANES = 8; // that share a dot product

KERNEL(THREADS) attention_delta(int tokens, const float* out, const float* dout, float* delta) {
    const long long i = globalThread() / DELTA_LANES;
    const int lane = threadIdx.x % DELTA_LANES;
    const bool in = i < (long long)tokens * HEADS;
    float sum = 0;
    if (in)
        for (int c = lane; c < QUADS; c += DELTA_LANES)
            sum = addDot(sum, *(const float4*)(out + i * DIM + 4 * c), *(const float4*)(dout + i * DIM + 4 * c));
    for (int mask = DELTA_LANES / 2; mask > 0; mask >>= 1) sum += __shfl_xor_sync(FULL, sum, mask);
    if (in && lane == 0) delta[i] = sum;
}

KERNEL(THREADS) attention_backward_q(const int* tile, const int* low, const int* seenAt, const int* seen, float scale,
                                     const float* qkv, const float* dout, const float* lse, const float* delta,
                                     float* dqkv) {
    float* q = (float*)SHARED_MEMORY;
    float* d = q + TILE * LD;  // dout
    float* kv = d + TILE * LD; // values, then keys
    float* p = kv + TILE * LD;
    const int t = gridDim.x - 1 - blockIdx.x, head = blockIdx.y;
    const int y = threadRow(), x = threadColumn();
    const long long first = tile[2 * t];
    const int rows = tile[2 * t + 1];
    const float* keys = qkv + QUERIES + head / GROUP * DIM;

    float4 dq[PER][SPAN];
    float logSum[PER], rowDelta[PER];
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = y + SIDE * i;
        const long long at = (first + row) * HEADS + head;
        logSum[i] = row < rows ? lse[at] : 0;
        rowDelta[i] = row < rows ? delta[at] : 0;
#pragma unroll
        for (int j = 0; j < SPAN; j++) dq[i][j] = make_float4(0, 0, 0, 0);
    }
    int lowest[PER];
    loadLowest(lowest, low, first, rows);
    loadTile(q, qkv + first * WIDTH + head * DIM, WIDTH, rows);
    loadTile(d, dout + first * QUERIES + head * DIM, QUERIES, rows);
    for (int at = seenAt[t], end = seenAt[t + 1]; at < end; at++) {
        const int k = seen[at], n = tile[2 * k + 1];
        const long long from = tile[2 * k] * WIDTH;
        float s[PER][PER], dp[PER][PER];
        __syncthreads();
        loadTile(kv, keys + KEYS + from, WIDTH, n);
        __syncthreads();
        multiplyTiles(dp, d, kv);
        __syncthreads();
        loadTile(kv, keys + from, WIDTH, n);
        __syncthreads();
        multiplyTiles(s, q, kv);
#pragma unroll
        for (int i = 0; i < PER; i++)
#pragma unroll
            for (int j = 0; j < PER; j++) {
                const int row = y + SIDE * i, c = x + SIDE * j;
                const bool sees = row < rows && c < n && (k != t || (c >= lowest[i] && c <= row));
                p[row * LDP + c] = sees ? expf(s[i][j] * scale - logSum[i]) * (dp[i][j] - rowDelta[i]) : 0.0f;
            }
        __syncthreads();
        addProducts(dq, p, kv);
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = y + SIDE * i;
        if (row < rows) storeRow(dqkv + (first + row) * WIDTH + head * DIM, dq[i], scale);
    }
}

KERNEL(THREADS) attention_backward_kv(const int* tile, const int* low, const int* task, const int* seenBy,
                                      float scale, const float* qkv, const float* dout, const float* lse, const float* delta,
                                      float* parts) {
    float* keys = (float*)SHARED_MEMORY;
    float* values = keys + TILE * LD;
    float* other = values + TILE * LD; // queries, dout, queries
    float* p = other + TILE * LD;      // a row for each key
    const int k = task[3 * blockIdx.x], from = task[3 * blockIdx.x + 1], to = task[3 * blockIdx.x + 2];
    const int kvHead = blockIdx.y;
    const int y = threadRow(), x = threadColumn();
    const int n = tile[2 * k + 1];
    const float* rowsOfKeys = qkv + tile[2 * k] * WIDTH + QUERIES + kvHead * DIM;
    loadTile(keys, rowsOfKeys, WIDTH, n);
    loadTile(values, rowsOfKeys + KEYS, WIDTH, n);

    float4 dk[PER][SPAN], dv[PER][SPAN];
#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < SPAN; j++) dk[i][j] = dv[i][j] = make_float4(0, 0, 0, 0);
    for (int head = kvHead * GROUP; head < (kvHead + 1) * GROUP; head++)
        for (int at = from; at < to; at++) {
            const int t = seenBy[at], rows = tile[2 * t + 1];
            const long long first = tile[2 * t];
            const float* queries = qkv + first * WIDTH + head * DIM;
            float s[PER][PER], ds[PER][PER];
            __syncthreads();
            loadTile(other, queries, WIDTH, rows);
            __syncthreads();
            multiplyTiles(s, keys, other);
#pragma unroll
            for (int j = 0; j < PER; j++) {
                const int c = x + SIDE * j;
                const float logSum = c < rows ? lse[(first + c) * HEADS + head] : 0;
                const long long lowest = k == t && c < rows ? low[first + c] - first : 0;
#pragma unroll
                for (int i = 0; i < PER; i++) {
                    const int row = y + SIDE * i;
                    const bool sees = c < rows && row < n && (k != t || (row >= lowest && row <= c));
                    s[i][j] = sees ? expf(s[i][j] * scale - logSum) : 0.0f;
                    p[row * LDP + c] = s[i][j];
                }
            }
            __syncthreads();
            loadTile(other, dout + first * QUERIES + head * DIM, QUERIES, rows);
            __syncthreads();
            multiplyTiles(ds, values, other);
            addProducts(dv, p, other);
            __syncthreads();
#pragma unroll
            for (int j = 0; j < PER; j++) {
                const int c = x + SIDE * j;
                const float rowDelta = c < rows ? delta[(first + c) * HEADS + head] : 0;
#pragma unroll
                for (int i = 0; i < PER; i++) p[(y + SIDE * i) * LDP + c] = s[i][j] * (ds[i][j] - rowDelta);
            }
            loadTile(other, queries, WIDTH, rows);
            __syncthreads();
            addProducts(dk, p, other);
        }
    float* part = parts + ((long long)blockIdx.x * KV_HEADS + kvHead) * (2 * TILE * DIM);
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = y + SIDE * i;
        if (row >= n) continue;
        storeRow(part + row * DIM, dk[i], scale);
        storeRow(part + (TILE + row) * DIM, dv[i], 1);
    }
}

KERNEL(THREADS) attention_sum_kv(const int* tile, const int* taskAt, const float* parts, float* dqkv) {
    const int t = blockIdx.x, kvHead = blockIdx.y, rows = tile[2 * t + 1];
    const long long first = tile[2 * t];
    for (int i = threadIdx.x; i < 2 * rows * QUADS; i += THREADS) {
        const int c = i % QUADS, row = i / QUADS % rows, value = i / QUADS / rows;
        float4 sum = make_float4(0, 0, 0, 0);
        for (int task = taskAt[t]; task < taskAt[t + 1]; task++) {
            const long long part = ((long long)task * KV_HEADS + kvHead) * 2 + value;
            addProduct(sum, 1, *(const float4*)(parts + (part * TILE + row) * DIM + 4 * c));
        }
        *(float4*)(dqkv + (first + row) * WIDTH + QUERIES + value * KEYS + kvHead * DIM + 4 * c) = sum;
    }
}
