// Samples whole completions in one launch. A block runs a tile of rows from their
// first states to their last tokens: head, choice of the token, layers, repeat.
// It reads the weights from global memory at every step; those of a small network
// stay in the L1 cache (170 KiB at H = 64 with two layers), those of a larger one
// in L2. R rows are computed together, and skipped when all R have ended.
//
// RolloutPlan.Module sets ROLLOUT_HIDDEN, ROLLOUT_LAYERS and ROLLOUT_VOCAB.

#define H ROLLOUT_HIDDEN
#define SLICES 8
#define THREADS 512
#define UNITS (THREADS / SLICES)                  // dot products that a block computes at a time
#define STATES ((H + 31) / 32 * 32)               // H, rounded up to whole slices
#define LD (STATES + 8)                           // floats between rows of states
#define LOGITS ((ROLLOUT_VOCAB + 3) / 4 * 4)      // floats between rows of logits
#define LAYER (6 * H * H + 6 * H)                 // parameters of a layer
#define PICK ((8 * ROLLOUT_VOCAB + 15) / 16 * 16) // bytes of scratch of a warp

// load4 loads four weights from column k on, zeros beyond H.
DEVICE void load4(const float* row, int k, float (&w)[4]) {
    if (H % 4 == 0) {
        float4 v = k < H ? __ldg((const float4*)(row + k)) : make_float4(0, 0, 0, 0);
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) w[e] = k + e < H ? __ldg(row + k + e) : 0.0f;
    }
}

// rowsIn is true if one of the R rows from q on has not ended.
template <int R> DEVICE bool rowsIn(const int* live, int q) {
    int any = 0;
#pragma unroll
    for (int r = 0; r < R; r++) any |= live[q + r];
    return any;
}

// logitsOf writes the tile's logits, without the bias.
template <int R> DEVICE void logitsOf(const float* head, const float* states, const int* live, int rows, float* logits) {
    int s = threadIdx.x % SLICES, item = itemOf<R>(s);
    for (int base = 0; base < ROLLOUT_VOCAB; base += UNITS) {
        int v = base + threadIdx.x / SLICES;
        const float* row = head + (long long)min(v, ROLLOUT_VOCAB - 1) * H;
        for (int q = 0; q < rows; q += R) {
            if (!rowsIn<R>(live, q)) continue;
            float sum[R][1];
#pragma unroll
            for (int r = 0; r < R; r++) sum[r][0] = 0;
#pragma unroll 2
            for (int i = 0; i < STATES / (4 * SLICES); i++) {
                int k = 4 * (i * SLICES + s);
                float w[4];
                load4(row, k, w);
#pragma unroll
                for (int r = 0; r < R; r++) multiplyAdd(sum[r][0], *(const float4*)(states + (q + r) * LD + k), w);
            }
            exchange<R, 1, SLICES>(sum, s);
            if (s < R && v < ROLLOUT_VOCAB) logits[(q + item) * LOGITS + v] = sum[0][0];
        }
    }
}

// advance computes the new states of one layer from old. x has the new states of the layer below;
// in the first layer it is NULL, and the input projections are rows of the table.
template <int R, bool FIRST>
DEVICE void advance(const float* layer, const float* table, const int* tokens, const float* x, const float* old,
                    const int* live, int rows, float* next) {
    const float *wih = layer, *whh = layer + 3 * H * H, *bih = layer + 6 * H * H, *bhh = bih + 3 * H;
    const int P = FIRST ? 3 : 4;
    int s = threadIdx.x % SLICES, item = itemOf<R>(s);
    for (int base = 0; base < H; base += UNITS) {
        int j = base + threadIdx.x / SLICES;
        long long row = (long long)min(j, H - 1) * H;
        for (int q = 0; q < rows; q += R) {
            if (!rowsIn<R>(live, q)) continue;
            // Biases and inputs of this lane's unit and row.
            int r = q + item;
            bool owner = s < R && j < H && r < rows && live[r];
            float xr = 0, xz = 0, gin = 0, ghn = 0;
            if (owner) {
                xr = bih[j] + bhh[j];
                xz = bih[H + j] + bhh[H + j];
                gin = bih[2 * H + j];
                ghn = bhh[2 * H + j];
                if (FIRST) {
                    const float* in = table + (long long)tokens[r] * (3 * H) + j;
                    xr += in[0];
                    xz += in[H];
                    gin += in[2 * H];
                }
            }
            float sum[R][P]; // of r, z, W_hn·h and W_in·x
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int p = 0; p < P; p++) sum[r][p] = 0;
#pragma unroll 2
            for (int i = 0; i < STATES / (4 * SLICES); i++) {
                int k = 4 * (i * SLICES + s);
                float w[3][4];
#pragma unroll
                for (int g = 0; g < 3; g++) load4(whh + row + (long long)g * H * H, k, w[g]);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    float4 a = *(const float4*)(old + (q + r) * LD + k);
#pragma unroll
                    for (int g = 0; g < 3; g++) multiplyAdd(sum[r][g], a, w[g]);
                }
                if constexpr (!FIRST) {
#pragma unroll
                    for (int g = 0; g < 3; g++) load4(wih + row + (long long)g * H * H, k, w[g]);
#pragma unroll
                    for (int r = 0; r < R; r++) {
                        float4 a = *(const float4*)(x + (q + r) * LD + k);
                        multiplyAdd(sum[r][0], a, w[0]);
                        multiplyAdd(sum[r][1], a, w[1]);
                        multiplyAdd(sum[r][P - 1], a, w[2]);
                    }
                }
            }
            exchange<R, P, SLICES>(sum, s);
            if (!owner) continue;
            xr += sum[0][0];
            xz += sum[0][1];
            ghn += sum[0][2];
            if (!FIRST) gin += sum[0][P - 1];
            float reset = sigmoid(xr), z = sigmoid(xz), c = tanhf(reset * ghn + gin);
            next[r * LD + j] = z * (old[r * LD + j] - c) + c;
        }
    }
}

struct Output {
    int* tokens;
    float* logps;
    int *lengths, *ended;
};

template <int R>
DEVICE void rollOut(const float* params, const float* table, const float* states, int rowsInAll, int tile, Choice c, Output out) {
    const int lo = blockIdx.x * tile, rows = min(tile, rowsInAll - lo), size = ROLLOUT_LAYERS * tile * LD;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int prompts = (rowsInAll + c.group - 1) / c.group;
    const float *layers = params + (long long)ROLLOUT_VOCAB * H, *head = layers + (long long)ROLLOUT_LAYERS * LAYER;
    float* now = (float*)SHARED_MEMORY; // layers×tile×LD
    float* next = now + size;
    float* logits = next + size;
    int* token = (int*)(logits + tile * LOGITS);
    int* live = token + tile;
    float* room = (float*)(live + tile) + warp * (PICK / 4);

    for (int i = threadIdx.x; i < size; i += THREADS) {
        int layer = i / (tile * LD), r = i / LD % tile, k = i % LD;
        bool in = r < rows && k < H;
        now[i] = in ? states[((long long)layer * prompts + (lo + r) / c.group) * H + k] : 0.0f;
        next[i] = 0;
    }
    for (int r = threadIdx.x; r < tile; r += THREADS) live[r] = r < rows;
    __syncthreads();
    for (int t = 0; t < c.maxTokens; t++) {
        logitsOf<R>(head, now + (ROLLOUT_LAYERS - 1) * tile * LD, live, rows, logits);
        __syncthreads();
        for (int r = warp; r < rows; r += THREADS / 32) {
            if (!live[r]) continue;
            Logits x = {logits + r * LOGITS, head + (long long)ROLLOUT_VOCAB * H};
            float logp;
            int id = choose(c, x, ROLLOUT_VOCAB, lo + r, t, room, &logp);
            if (lane != 0) continue;
            long long at = (long long)(lo + r) * c.maxTokens + t;
            out.tokens[at] = id;
            out.logps[at] = logp;
            out.lengths[lo + r] = t + 1;
            out.ended[lo + r] = id == c.eos;
            token[r] = id;
            live[r] = id != c.eos && t + 1 < c.maxTokens;
        }
        __syncthreads();
        int any = 0;
        for (int r = 0; r < rows; r++) any |= live[r];
        if (!any) return;
        for (int l = 0; l < ROLLOUT_LAYERS; l++) {
            const float *layer = layers + (long long)l * LAYER, *old = now + l * tile * LD;
            if (l == 0)
                advance<R, true>(layer, table, token, 0, old, live, rows, next);
            else
                advance<R, false>(layer, table, token, next + (l - 1) * tile * LD, old, live, rows, next + l * tile * LD);
            __syncthreads();
        }
        float* swap = now;
        now = next;
        next = swap;
    }
}

#define ROLLOUT(name, R)                                                                                          \
    KERNEL_OF_BLOCKS(THREADS, 1)                                                                                  \
    name(const float* params, const float* table, const float* states, int rows, int group, int tile, float inv, \
         double topP, int topK, int minTokens, int maxTokens, int greedy, int eos, const double* uniform,         \
         unsigned k0, unsigned k1, unsigned a, unsigned b0, unsigned c0, int* tokens, float* logps, int* lengths, \
         int* ended) {                                                                                            \
        Choice c = {inv, topP, topK, minTokens, maxTokens, greedy, eos, group, uniform, k0, k1, a, b0, c0};       \
        Output out = {tokens, logps, lengths, ended};                                                             \
        rollOut<R>(params, table, states, rows, tile, c, out);                                                    \
    }

ROLLOUT(rollout_2, 2)
ROLLOUT(rollout_4, 4)
ROLLOUT(rollout_8, 8)
