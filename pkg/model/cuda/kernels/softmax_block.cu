// The softmax of a row of many logits, computed by a block. Thread i of N takes the logits 4·(i+N·k)
// to 4·(i+N·k)+3, in this order whether or not it can read four at once.

#define ROW_THREADS 512
#define ROW_WARPS (ROW_THREADS / 32)
#define ROW_SHARED (2 * ROW_WARPS * 4) // bytes of shared memory

DEVICE bool aligned(const void* p) { return (unsigned long long)p % 16 == 0; }

// loadFour reads x[j] to x[j+3] of n numbers, j a multiple of 4, with rest beyond them.
DEVICE float4 loadFour(const float* x, int j, int n, float rest) {
    if (j + 4 <= n && aligned(x)) return *(const float4*)(x + j);
    return make_float4(j < n ? x[j] : rest, j + 1 < n ? x[j + 1] : rest, j + 2 < n ? x[j + 2] : rest,
                       j + 3 < n ? x[j + 3] : rest);
}

DEVICE void storeFour(float* x, int j, int n, float4 v) {
    if (j + 4 <= n && aligned(x)) {
        *(float4*)(x + j) = v;
        return;
    }
    if (j < n) x[j] = v.x;
    if (j + 1 < n) x[j + 1] = v.y;
    if (j + 2 < n) x[j + 2] = v.z;
    if (j + 3 < n) x[j + 3] = v.w;
}

// fourLogits returns logits j to j+3, -Inf beyond the row.
DEVICE float4 fourLogits(Logits row, int j, int n) {
    float4 v = loadFour(row.x, j, n, -infinity());
    if (row.bias) {
        float4 b = loadFour(row.bias, j, n, 0.0f);
        v.x += b.x;
        v.y += b.y;
        v.z += b.z;
        v.w += b.w;
    }
    return v;
}

// A thread's part of an online softmax.
struct OnlineSoftmax {
    float inv, top, sum, dot;
    // rescale raises the maximum, to which the sums are relative.
    __device__ __forceinline__ void rescale(float to) {
        float shift = top > -infinity() ? fmaxf((top - to) * inv, EXP_MIN) : EXP_MIN, e = expf(shift);
        dot = e * (dot + shift * sum);
        sum *= e;
        top = to;
    }
    __device__ __forceinline__ void add(float x) {
        float z = x == -infinity() ? EXP_MIN : (x - top) * inv, e = expf(z);
        sum += e;
        dot += e * fmaxf(z, EXP_MIN);
    }
};

// blockSoftmax computes the softmax of n logits in all threads. shared has ROW_SHARED bytes.
DEVICE Softmax blockSoftmax(Logits row, int n, float inv, float* shared) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    OnlineSoftmax o = {inv, -infinity(), 0, 0};
    int j = 4 * threadIdx.x;
    float4 ahead = fourLogits(row, j, n); // the next ones, read during the arithmetic
    while (j < n) {
        float4 x = ahead;
        j += 4 * ROW_THREADS;
        ahead = fourLogits(row, j, n);
        float top = fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
        if (top > o.top) o.rescale(top);
        o.add(x.x);
        o.add(x.y);
        o.add(x.z);
        o.add(x.w);
    }
    float top = warpMax(o.top);
    if (lane == 0) shared[warp] = top;
    __syncthreads();
    for (int k = 0; k < ROW_WARPS; k++) top = fmaxf(top, shared[k]);
    __syncthreads();
    o.rescale(top);
    float sum = warpSum(o.sum), dot = warpSum(o.dot);
    if (lane == 0) {
        shared[2 * warp] = sum;
        shared[2 * warp + 1] = dot;
    }
    __syncthreads();
    Softmax s = {top, 0, 0};
    for (int k = 0; k < ROW_WARPS; k++) {
        s.sum += shared[2 * k];
        s.dot += shared[2 * k + 1];
    }
    __syncthreads();
    return s;
}
