// Attention of one new token for each completion: see attention.cu for the macros. A block
// computes all query heads of one key head of one completion, so each key and value is read
// once for them. A warp takes 32 keys at a time: KEY_LANES lanes share a key for the scores, and
// VALUE_LANES lanes a value for the sums. Last, the block merges the warps' sums in their order.

// lanesFor is the smallest power of two of at least n lanes, or most.
DEVICE constexpr int lanesFor(int n, int most) {
    int lanes = 1;
    while (lanes < n && lanes < most) lanes *= 2;
    return lanes;
}

constexpr int KEY_LANES = lanesFor(QUADS, 8), VALUE_LANES = lanesFor(QUADS, 32);
constexpr int AT_ONCE = KEY_LANES < 4 ? KEY_LANES : 4;         // keys of a lane that are read together
constexpr int SHARE = (QUADS + VALUE_LANES - 1) / VALUE_LANES; // float4 of a value of a lane
constexpr int DECODE_THREADS = 32 * DECODE_WARPS;

KERNEL(DECODE_THREADS) attention_decode(int group, int most, const int* step, const int* ranges, float scale,
                                        const float* context, float* own, const float* qkv, const int* ended,
                                        float* out) {
    const int row = blockIdx.x, head = blockIdx.y;
    if (ended[row]) return;
    float* q = (float*)SHARED_MEMORY;                 // GROUP×DIM
    float* sums = q + GROUP * DIM;                    // DECODE_WARPS×GROUP×DIM
    float* probs = sums + DECODE_WARPS * GROUP * DIM; // DECODE_WARPS×GROUP×32
    float* tops = probs + DECODE_WARPS * GROUP * 32;  // DECODE_WARPS×GROUP
    float* totals = tops + DECODE_WARPS * GROUP;      // DECODE_WARPS×GROUP
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int t = step[0];
    const int* range = ranges + 4 * (row / group);
    const int n1 = range[1], n2 = n1 + range[3], n = n2 + t + 1;
    const float* part1 = context + (long long)range[0] * (2 * KEYS) + head * DIM;
    const float* part2 = context + (long long)range[2] * (2 * KEYS) + head * DIM;
    float* mine = own + (long long)row * most * (2 * KEYS) + head * DIM;

    const float* now = qkv + row * WIDTH;
    for (int i = threadIdx.x; i < GROUP * DIM; i += DECODE_THREADS) q[i] = now[head * GROUP * DIM + i];
    for (int i = threadIdx.x; i < DIM; i += DECODE_THREADS) {
        float* to = mine + (long long)t * (2 * KEYS) + i;
        to[0] = now[QUERIES + head * DIM + i];
        to[KEYS] = now[QUERIES + KEYS + head * DIM + i];
    }
    __syncthreads();

    // The key of place k; its value is KEYS further on.
    auto keyOf = [&](int k) -> const float* {
        if (k < n1) return part1 + k * (2LL * KEYS);
        if (k < n2) return part2 + (k - n1) * (2LL * KEYS);
        return mine + (k - n2) * (2LL * KEYS);
    };
    float4 o[GROUP][SHARE];
    float top[GROUP], total[GROUP]; // total: of this lane's keys
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        top[g] = -infinity();
        total[g] = 0;
#pragma unroll
        for (int j = 0; j < SHARE; j++) o[g][j] = make_float4(0, 0, 0, 0);
    }
    float* p = probs + warp * GROUP * 32;
    for (int first = 32 * warp; first < n; first += DECODE_THREADS) {
        // Places from n on read the last key again: their probabilities are 0.
        const int keyLane = lane % KEY_LANES;
        for (int k = lane / KEY_LANES; k - lane / KEY_LANES < min(32, n - first); k += AT_ONCE * (32 / KEY_LANES)) {
            const float* keys[AT_ONCE];
            float s[AT_ONCE][GROUP];
#pragma unroll
            for (int a = 0; a < AT_ONCE; a++) {
                keys[a] = keyOf(min(first + k + a * (32 / KEY_LANES), n - 1));
#pragma unroll
                for (int g = 0; g < GROUP; g++) s[a][g] = 0;
            }
#pragma unroll
            for (int from = 0; from < QUADS; from += KEY_LANES) {
                const int c = from + keyLane;
                if (c >= QUADS) break;
                float4 key[AT_ONCE];
#pragma unroll
                for (int a = 0; a < AT_ONCE; a++) key[a] = *(const float4*)(keys[a] + 4 * c);
#pragma unroll
                for (int g = 0; g < GROUP; g++) {
                    float4 query = *(const float4*)(q + g * DIM + 4 * c);
#pragma unroll
                    for (int a = 0; a < AT_ONCE; a++) s[a][g] = addDot(s[a][g], query, key[a]);
                }
            }
#pragma unroll
            for (int a = 0; a < AT_ONCE; a++)
#pragma unroll
                for (int g = 0; g < GROUP; g++) {
                    for (int mask = KEY_LANES / 2; mask > 0; mask >>= 1) s[a][g] += __shfl_xor_sync(FULL, s[a][g], mask);
                    if (keyLane == 0) p[g * 32 + k + a * (32 / KEY_LANES)] = s[a][g];
                }
        }
        __syncwarp();
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const float s = first + lane < n ? p[g * 32 + lane] * scale : -infinity();
            const float largest = fmaxf(top[g], warpMax(s));
            const float rescale = expf(top[g] - largest), e = expf(s - largest);
            top[g] = largest;
            total[g] = total[g] * rescale + e;
            p[g * 32 + lane] = e;
#pragma unroll
            for (int j = 0; j < SHARE; j++) o[g][j] = scaled(o[g][j], rescale);
        }
        __syncwarp();
#pragma unroll 4
        for (int k = lane / VALUE_LANES; k - lane / VALUE_LANES < min(32, n - first); k += 32 / VALUE_LANES) {
            const float* value = keyOf(min(first + k, n - 1)) + KEYS;
#pragma unroll
            for (int j = 0; j < SHARE; j++) {
                const int c = lane % VALUE_LANES + VALUE_LANES * j;
                if (c >= QUADS) continue;
                const float4 v = *(const float4*)(value + 4 * c);
#pragma unroll
                for (int g = 0; g < GROUP; g++) addProduct(o[g][j], p[g * 32 + k], v);
            }
        }
        __syncwarp();
    }

#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        const int at = warp * GROUP + g;
        const float sum = warpSum(total[g]);
        if (lane == 0) {
            tops[at] = top[g];
            totals[at] = sum;
        }
#pragma unroll
        for (int j = 0; j < SHARE; j++) {
            float4 v = o[g][j];
#pragma unroll
            for (int mask = 16; mask >= VALUE_LANES; mask >>= 1) {
                v.x += __shfl_xor_sync(FULL, v.x, mask);
                v.y += __shfl_xor_sync(FULL, v.y, mask);
                v.z += __shfl_xor_sync(FULL, v.z, mask);
                v.w += __shfl_xor_sync(FULL, v.w, mask);
            }
            const int c = lane + VALUE_LANES * j;
            if (lane < VALUE_LANES && c < QUADS) *(float4*)(sums + at * DIM + 4 * c) = v;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < GROUP * DIM; i += DECODE_THREADS) {
        const int g = i / DIM;
        float largest = -infinity(), whole = 0, sum = 0;
        for (int w = 0; w < DECODE_WARPS; w++) largest = fmaxf(largest, tops[w * GROUP + g]);
        for (int w = 0; w < DECODE_WARPS; w++) {
            const float weight = expf(tops[w * GROUP + g] - largest); // 0 for a warp without keys
            whole += weight * totals[w * GROUP + g];
            sum += weight * sums[w * GROUP * DIM + i];
        }
        out[(long long)row * QUERIES + head * GROUP * DIM + i] = sum / whole;
    }
}
