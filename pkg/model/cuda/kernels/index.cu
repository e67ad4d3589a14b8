// Gather rows by index, and sum rows by index in a fixed order.

KERNEL(256) gather_rows(int n, int width, const int* index, const float* x, float* y) {
    const float* from = x + (long long)index[blockIdx.x] * width;
    float* to = y + (long long)blockIdx.x * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x) to[j] = from[j];
}

// A block reads all indices for one target through shared memory; each thread
// sums one column.
KERNEL(128) scatter_add_rows(int n, int width, const int* index, const float* x, int ldx,
                             const int* targets, int count, float* out, int ldo, int accumulate) {
    int* seen = (int*)SHARED_MEMORY;
    int target = targets ? targets[blockIdx.x] : (int)blockIdx.x;
    int column = blockIdx.y * blockDim.x + threadIdx.x;
    float* to = out + (long long)target * ldo + column;
    float sum = accumulate && column < width ? *to : 0.0f;
    for (int from = 0; from < n; from += blockDim.x) {
        int rows = min((int)blockDim.x, n - from);
        __syncthreads();
        if (threadIdx.x < rows) seen[threadIdx.x] = index[from + threadIdx.x];
        __syncthreads();
        if (column < width)
            for (int i = 0; i < rows; i++)
                if (seen[i] == target) sum += x[(long long)(from + i) * ldx + column];
    }
    if (column < width) *to = sum;
}

// A thread owns one column of the sums of all tokens, so it adds rows in order
// without synchronization. It loads 8 rows ahead of the additions.
KERNEL(64) table_grad_parts(int n, int width, const int* ids, const float* x, int ldx, int vocab, int chunk, float* parts) {
    float* sums = (float*)SHARED_MEMORY + threadIdx.x;
    int column = blockIdx.y * 64 + threadIdx.x;
    if (column >= width) return;
    for (int v = 0; v < vocab; v++) sums[v * 64] = 0;
    int from = blockIdx.x * chunk, to = min(n, from + chunk);
    const float* at = x + column;
    int i = from;
    for (; i + 8 <= to; i += 8) {
        float row[8];
        int id[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            id[k] = ids[i + k];
            row[k] = at[(long long)(i + k) * ldx];
        }
#pragma unroll
        for (int k = 0; k < 8; k++) sums[id[k] * 64] += row[k];
    }
    for (; i < to; i++) sums[ids[i] * 64] += at[(long long)i * ldx];
    float* out = parts + (long long)blockIdx.x * vocab * width + column;
    for (int v = 0; v < vocab; v++) out[(long long)v * width] = sums[v * 64];
}
