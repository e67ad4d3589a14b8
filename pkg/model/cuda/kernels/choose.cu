// The choice of a token of each row from its logits, without top-k and top-p: a block for each row.

// Tokens whose weights a warp adds up at a time: SEGMENT_ROUNDS times four for each lane.
#define SEGMENT_ROUNDS 4
#define SEGMENT (SEGMENT_ROUNDS * 128)

// Weights are the probabilities of a row's tokens times a constant.
struct Weights {
    Logits row;
    int vocab;
    float top, inv;
    const int* end; // tokens of weight 0, and their number
    int ends;
    __device__ __forceinline__ bool isEnd(int j) const {
        for (int k = 0; k < ends; k++)
            if (end[k] == j) return true;
        return false;
    }
    __device__ __forceinline__ float of(int j, float x) const { return isEnd(j) ? 0 : expf((x - top) * inv); }
    // tokens j to j+3; 0 beyond the vocabulary
    __device__ __forceinline__ float4 four(int j) const {
        float4 x = fourLogits(row, j, vocab);
        return make_float4(of(j, x.x), of(j + 1, x.y), of(j + 2, x.z), of(j + 3, x.w));
    }
};

// topWithoutEnd returns the largest logit of the tokens of a weight in all threads, to which weights are relative: beside
// an end token that is more likely by e^88 all others would be 0. shared has ROW_SHARED bytes.
DEVICE float topWithoutEnd(Weights w, float* shared) {
    float top = -infinity();
    for (int j = 4 * threadIdx.x; j < w.vocab; j += 4 * ROW_THREADS) {
        float4 x = fourLogits(w.row, j, w.vocab);
        if (!w.isEnd(j)) top = fmaxf(top, x.x);
        if (!w.isEnd(j + 1)) top = fmaxf(top, x.y);
        if (!w.isEnd(j + 2)) top = fmaxf(top, x.z);
        if (!w.isEnd(j + 3)) top = fmaxf(top, x.w);
    }
    top = warpMax(top);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = top;
    __syncthreads();
    for (int k = 0; k < ROW_WARPS; k++) top = fmaxf(top, shared[k]);
    __syncthreads();
    return top > -infinity() ? top : w.top;
}

DEVICE double sumFour(float4 v) { return ((double)v.x + v.y) + ((double)v.z + v.w); }

// scan returns the sum of v over the lanes up to this one.
DEVICE double scan(double v, int lane) {
    for (int by = 1; by < 32; by <<= 1) {
        double other = __shfl_up_sync(FULL, v, by);
        if (lane >= by) v += other;
    }
    return v;
}

// Best is the token of the largest weight, the lowest id on a tie. It never is one of weight NaN.
struct Best {
    float weight;
    int id;
    __device__ __forceinline__ void take(float w, int j) {
        if (w > weight || (w == weight && j < id)) {
            weight = w;
            id = j;
        }
    }
};

// likeliest returns the token of the largest weight to thread 0. shared has ROW_SHARED bytes.
DEVICE int likeliest(Weights w, Best* shared) {
    Best best = {0, 0};
    for (int j = 4 * threadIdx.x; j < w.vocab; j += 4 * ROW_THREADS) {
        float4 v = w.four(j);
        best.take(v.x, j);
        best.take(v.y, j + 1);
        best.take(v.z, j + 2);
        best.take(v.w, j + 3);
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
        float weight = __shfl_xor_sync(FULL, best.weight, mask);
        int id = __shfl_xor_sync(FULL, best.id, mask);
        best.take(weight, id);
    }
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int k = 1; k < ROW_WARPS; k++) best.take(shared[k].weight, shared[k].id);
    return best.id;
}

// tokenOf returns the first token of a segment at which the sum, from before on, exceeds the target,
// in all lanes of a warp; where rounding keeps it below, the last token of a weight above 0.
DEVICE int tokenOf(Weights w, int segment, double before, double target, int lane) {
    int id = 0;
    for (int q = 0; q < SEGMENT_ROUNDS; q++) {
        int j = segment * SEGMENT + q * 128 + 4 * lane;
        float4 v = w.four(j);
        double mine = sumFour(v), upTo = before + scan(mine, lane), run = __shfl_up_sync(FULL, upTo, 1);
        if (lane == 0) run = before;
        bool passed;
        int found = firstAbove(mine > 0, upTo, target, &passed);
        int token = j;
        float weights[4] = {v.x, v.y, v.z, v.w};
        bool above = false;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (above || !(weights[i] > 0)) continue;
            token = j + i;
            run += weights[i];
            above = run > target;
        }
        if (found >= 0) id = __shfl_sync(FULL, token, found);
        if (passed) break;
        before = __shfl_sync(FULL, upTo, 31);
    }
    return id;
}

// drawn returns to thread 0 the first token at which the sum of the weights exceeds u times their
// total. sums has a number for each segment.
DEVICE int drawn(Weights w, double u, double* sums) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int segments = (w.vocab + SEGMENT - 1) / SEGMENT;
    for (int k = warp; k < segments; k += ROW_WARPS) {
        double sum = 0;
#pragma unroll
        for (int q = 0; q < SEGMENT_ROUNDS; q++) sum += sumFour(w.four(k * SEGMENT + q * 128 + 4 * lane));
        sum = warpSum(sum);
        if (lane == 0) sums[k] = sum;
    }
    __syncthreads();
    if (warp != 0) return 0;
    // A range of segments for each lane.
    int range = (segments + 31) / 32, first = lane * range, last = min(first + range, segments);
    double mine = 0;
    for (int k = first; k < last; k++) mine += sums[k];
    double upTo = scan(mine, lane), run = __shfl_up_sync(FULL, upTo, 1);
    if (lane == 0) run = 0;
    double target = u * __shfl_sync(FULL, upTo, 31), before = run;
    bool passed;
    int found = firstAbove(mine > 0, upTo, target, &passed);
    if (found < 0) return 0; // all weights are 0 or NaN
    int segment = first;
    for (int k = first; k < last; k++) {
        if (!(sums[k] > 0)) continue;
        segment = k;
        before = run;
        run += sums[k];
        if (run > target) break;
    }
    return tokenOf(w, __shfl_sync(FULL, segment, found), __shfl_sync(FULL, before, found), target, lane);
}

KERNEL_OF_BLOCKS(ROW_THREADS, 2)
choose(int rows, int vocab, const float* logits, float inv, int minTokens, int most, int greedy, const int* end,
       int ends, const double* uniform, const int* step, int* tokens, float* logps, float* entropies, int* lengths,
       int* ended, int* next, int* alive) {
    int r = blockIdx.x, t = step[0];
    if (r >= rows || ended[r]) return;
    Logits row = {logits + (long long)r * vocab, 0};
    Softmax s = blockSoftmax(row, vocab, inv, (float*)SHARED_MEMORY);
    Weights w = {row, vocab, s.top, inv, end, t < minTokens ? ends : 0};
    if (w.ends > 0) w.top = topWithoutEnd(w, (float*)SHARED_MEMORY);
    long long at = (long long)r * most + t;
    int id = greedy ? likeliest(w, (Best*)SHARED_MEMORY) : drawn(w, uniform[at], (double*)(SHARED_MEMORY + ROW_SHARED));
    if (threadIdx.x != 0) return;
    float logSum = logf(s.sum);
    tokens[at] = id;
    logps[at] = (row(id) - s.top) * inv - logSum;
    if (entropies) entropies[at] = logSum - s.dot / s.sum;
    lengths[r] = t + 1;
    next[r] = id;
    bool last = t + 1 == most;
    for (int k = 0; k < ends; k++) last = last || end[k] == id;
    ended[r] = last;
    if (!last) atomicAdd(alive, 1);
}

KERNEL(1) next_step(int* step, int* alive) {
    step[0]++;
    alive[0] = 0;
}
