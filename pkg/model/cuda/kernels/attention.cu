// Attention over a tree of segments. A segment is cut into tiles of at most ATTENTION_TILE
// rows, and a block computes one tile of queries of one head over the tiles of keys that it sees,
// with the online softmax of FlashAttention (Dao et al., 2022, https://arxiv.org/abs/2205.14135):
// scores of one pair of tiles at a time, never a matrix of tokens×tokens.
//
// Macros, set by AttentionPlan.Module:
//
//	ATTENTION_HEADS, ATTENTION_KV_HEADS, ATTENTION_DIM
//	ATTENTION_TILE   16, 32 or 64
//	DECODE_WARPS     of a block of attention_decode
//
// The 256 threads of a block are a square. Thread (y, x) computes the scores of rows y + 16·i and
// columns x + 16·j of a pair of tiles, and of products with DIM columns the float4 x + 16·j of
// rows y + 16·i. So a row of either belongs to 16 lanes of one warp.

constexpr int HEADS = ATTENTION_HEADS, KV_HEADS = ATTENTION_KV_HEADS, DIM = ATTENTION_DIM, TILE = ATTENTION_TILE;
constexpr int GROUP = HEADS / KV_HEADS;                     // query heads of a key head
constexpr int QUERIES = HEADS * DIM, KEYS = KV_HEADS * DIM; // columns
constexpr long long WIDTH = QUERIES + 2 * KEYS;             // columns of qkv
constexpr int QUADS = DIM / 4;                              // float4 of a row
constexpr int LD = QUADS % 2 ? DIM : DIM + 4;               // between rows of a tile in shared memory, against bank conflicts
constexpr int LDP = TILE + 4;                               // between rows of probabilities
constexpr int SIDE = 16, THREADS = SIDE * SIDE;             // of a block
constexpr int PER = TILE / SIDE;                            // rows, and columns of scores, of a thread
constexpr int SPAN = (QUADS + SIDE - 1) / SIDE;             // float4 of a row of a thread

DEVICE int threadRow() { return threadIdx.x / SIDE; }
DEVICE int threadColumn() { return threadIdx.x % SIDE; }

// Over the lanes that share a row; each gets the same bits.
DEVICE float rowSum(float v) {
    for (int mask = SIDE / 2; mask > 0; mask >>= 1) v += __shfl_xor_sync(FULL, v, mask);
    return v;
}

DEVICE float rowMax(float v) {
    for (int mask = SIDE / 2; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL, v, mask));
    return v;
}

DEVICE void addProduct(float4& sum, float a, float4 b) {
    sum.x += a * b.x;
    sum.y += a * b.y;
    sum.z += a * b.z;
    sum.w += a * b.w;
}

DEVICE float addDot(float sum, float4 a, float4 b) {
    sum += a.x * b.x;
    sum += a.y * b.y;
    sum += a.z * b.z;
    return sum + a.w * b.w;
}

DEVICE float4 scaled(float4 a, float by) { return make_float4(a.x * by, a.y * by, a.z * by, a.w * by); }

// loadTile copies rows of DIM numbers, stride apart, to shared memory; the rest of the tile is 0.
DEVICE void loadTile(float* to, const float* from, long long stride, int rows) {
#pragma unroll
    for (int first = 0; first < TILE * QUADS; first += THREADS) {
        int i = first + threadIdx.x, r = i / QUADS, c = i % QUADS;
        if (r >= TILE) break;
        float4 v = make_float4(0, 0, 0, 0);
        if (r < rows) v = *(const float4*)(from + r * stride + 4 * c);
        *(float4*)(to + r * LD + 4 * c) = v;
    }
}

// multiplyTiles computes this thread's part of a·bᵀ for two tiles in shared memory.
DEVICE void multiplyTiles(float (&s)[PER][PER], const float* a, const float* b) {
    a += threadRow() * LD;
    b += threadColumn() * LD;
#pragma unroll
    for (int i = 0; i < PER; i++)
#pragma unroll
        for (int j = 0; j < PER; j++) s[i][j] = 0;
#pragma unroll 4
    for (int d = 0; d < DIM; d += 4) {
        float4 u[PER], v[PER];
#pragma unroll
        for (int i = 0; i < PER; i++) {
            u[i] = *(const float4*)(a + i * SIDE * LD + d);
            v[i] = *(const float4*)(b + i * SIDE * LD + d);
        }
#pragma unroll
        for (int i = 0; i < PER; i++)
#pragma unroll
            for (int j = 0; j < PER; j++) s[i][j] = addDot(s[i][j], u[i], v[j]);
    }
}

// addProducts adds this thread's part of p·b, where p is TILE×TILE (LDP) and b a tile.
DEVICE void addProducts(float4 (&sum)[PER][SPAN], const float* p, const float* b) {
    const int x = threadColumn();
    p += threadRow() * LDP;
    b += 4 * x;
#pragma unroll 2
    for (int k = 0; k < TILE; k += 4) {
        float w[PER][4];
#pragma unroll
        for (int i = 0; i < PER; i++) {
            float4 v = *(const float4*)(p + i * SIDE * LDP + k);
            w[i][0] = v.x, w[i][1] = v.y, w[i][2] = v.z, w[i][3] = v.w;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int j = 0; j < SPAN; j++) {
                if (QUADS % SIDE && x + SIDE * j >= QUADS) continue;
                float4 v = *(const float4*)(b + (k + e) * LD + 4 * SIDE * j);
#pragma unroll
                for (int i = 0; i < PER; i++) addProduct(sum[i][j], w[i][e], v);
            }
    }
}

// storeRow writes this thread's part of a row of a product.
DEVICE void storeRow(float* to, const float4 (&row)[SPAN], float by) {
#pragma unroll
    for (int j = 0; j < SPAN; j++) {
        int c = threadColumn() + SIDE * j;
        if (c < QUADS) *(float4*)(to + 4 * c) = scaled(row[j], by);
    }
}

// A row of the diagonal tile sees the columns from lowest[i] to itself: rows of several segments
// may share a tile.
DEVICE void loadLowest(int (&lowest)[PER], const int* low, long long first, int rows) {
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = threadRow() + SIDE * i;
        lowest[i] = row < rows ? (int)(low[first + row] - first) : 0;
    }
}

KERNEL(THREADS) attention_forward(const int* tile, const int* low, const int* seenAt, const int* seen, float scale,
                                  const float* qkv, float* out, float* lse) {
    float* q = (float*)SHARED_MEMORY;
    float* kv = q + TILE * LD; // keys, then values
    float* p = kv + TILE * LD;
    // The last tiles see the most: they begin first.
    const int t = gridDim.x - 1 - blockIdx.x, head = blockIdx.y;
    const int y = threadRow(), x = threadColumn();
    const long long first = tile[2 * t];
    const int rows = tile[2 * t + 1];
    const float* keys = qkv + QUERIES + head / GROUP * DIM;

    float4 o[PER][SPAN];
    float top[PER], sum[PER]; // sum: of this lane's columns
#pragma unroll
    for (int i = 0; i < PER; i++) {
        top[i] = -infinity();
        sum[i] = 0;
#pragma unroll
        for (int j = 0; j < SPAN; j++) o[i][j] = make_float4(0, 0, 0, 0);
    }
    int lowest[PER];
    loadLowest(lowest, low, first, rows);
    loadTile(q, qkv + first * WIDTH + head * DIM, WIDTH, rows);
    for (int at = seenAt[t], end = seenAt[t + 1]; at < end; at++) {
        const int k = seen[at], n = tile[2 * k + 1];
        const long long from = tile[2 * k] * WIDTH;
        __syncthreads();
        loadTile(kv, keys + from, WIDTH, n);
        __syncthreads();
        float s[PER][PER];
        multiplyTiles(s, q, kv);
#pragma unroll
        for (int i = 0; i < PER; i++) {
            const int row = y + SIDE * i;
            float largest = top[i];
#pragma unroll
            for (int j = 0; j < PER; j++) {
                const int c = x + SIDE * j;
                s[i][j] = c < n && (k != t || (c >= lowest[i] && c <= row)) ? s[i][j] * scale : -infinity();
                largest = fmaxf(largest, s[i][j]);
            }
            largest = rowMax(largest);
            const float rescale = expf(top[i] - largest);
            top[i] = largest;
            sum[i] *= rescale;
#pragma unroll
            for (int j = 0; j < PER; j++) {
                float e = expf(s[i][j] - largest);
                sum[i] += e;
                p[row * LDP + x + SIDE * j] = e;
            }
#pragma unroll
            for (int j = 0; j < SPAN; j++) o[i][j] = scaled(o[i][j], rescale);
        }
        __syncthreads();
        loadTile(kv, keys + KEYS + from, WIDTH, n);
        __syncthreads();
        addProducts(o, p, kv);
    }
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = y + SIDE * i;
        const float total = rowSum(sum[i]);
        if (row >= rows) continue;
        storeRow(out + (first + row) * QUERIES + head * DIM, o[i], 1 / total);
        if (lse && x == 0) lse[(first + row) * HEADS + head] = top[i] + logf(total);
    }
}
