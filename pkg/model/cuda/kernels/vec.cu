// Elementwise operations, sums over rows and the optimizer.

KERNEL(256) axpy(long long n, float alpha, const float* x, float* y) {
    for (long long i = globalThread(); i < n; i += globalThreads()) y[i] += alpha * x[i];
}

KERNEL(256) add(long long n, const float* a, const float* b, float* y) {
    for (long long i = globalThread(); i < n; i += globalThreads()) y[i] = a[i] + b[i];
}

// foldRows adds the sums of a block's 8 rows of threads; the first row gets the
// total.
DEVICE float foldRows(float sum, float* shared) {
    shared[threadIdx.y * 32 + threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    if (threadIdx.y == 0)
        for (int y = 0; y < 8; y++) sum += shared[y * 32 + threadIdx.x];
    return sum;
}

// A block of 32×8 threads sums 32 columns of a chunk of rows: each thread every
// 8th row, then the 8 sums.
KERNEL(256) col_sum_parts(int n, int width, const float* x, int ldx, const float* weight, int chunk, float* parts) {
    float* shared = (float*)SHARED_MEMORY;
    int column = blockIdx.y * 32 + threadIdx.x;
    int from = blockIdx.x * chunk, to = min(n, from + chunk);
    float sum = 0;
    if (column < width)
        for (int i = from + threadIdx.y; i < to; i += 8) {
            float v = x[(long long)i * ldx + column];
            sum += weight ? weight[i] * v : v;
        }
    sum = foldRows(sum, shared);
    if (threadIdx.y == 0 && column < width) parts[(long long)blockIdx.x * width + column] = sum;
}

DEVICE float sumOfParts(int count, int n, int column, const float* parts, float* shared) {
    float sum = 0;
    if (column < n)
        for (int p = threadIdx.y; p < count; p += 8) sum += parts[(long long)p * n + column];
    return foldRows(sum, shared);
}

KERNEL(256) sum_parts(int count, int n, const float* parts, float* out, int accumulate) {
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = sumOfParts(count, n, column, parts, (float*)SHARED_MEMORY);
    if (threadIdx.y == 0 && column < n) out[column] = accumulate ? out[column] + sum : sum;
}

KERNEL(256) gru_bias_grad(int count, int hidden, const float* parts, float* dbih, float* dbhh) {
    int column = blockIdx.x * 32 + threadIdx.x;
    float sum = sumOfParts(count, 4 * hidden, column, parts, (float*)SHARED_MEMORY);
    if (threadIdx.y != 0 || column >= 4 * hidden) return;
    if (column < 3 * hidden) dbih[column] = sum;
    if (column < 2 * hidden) dbhh[column] = sum;
    if (column >= 3 * hidden) dbhh[column - hidden] = sum;
}

KERNEL(256) sum_squares_parts(long long n, const float* x, double* parts) {
    double sum = 0;
    for (long long i = globalThread(); i < n; i += globalThreads()) {
        double v = x[i];
        sum += v * v;
    }
    sum = blockSum(sum, (double*)SHARED_MEMORY);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

KERNEL(256) sum_squares_total(int count, const double* parts, double* total) {
    double sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += parts[i];
    sum = blockSum(sum, (double*)SHARED_MEMORY);
    if (threadIdx.x == 0) total[0] = sum;
}

// The intrinsics prevent fused multiply-adds, so that the bits are those of
// pkg/model/kernel.
KERNEL(256) adamw(long long n, float* w, const float* g, float* m, float* v,
                  float decay, float beta1, float rest1, float beta2, float rest2,
                  float step, float invBias, float eps, double maxNorm, const double* total) {
    float scale = 1;
    if (total) {
        double norm = sqrt(total[0]);
        if (!(norm <= 1.7976931348623157e308)) return;
        if (maxNorm > 0) scale = (float)fmin(1.0, maxNorm / (norm + 1e-6));
    }
    for (long long i = globalThread(); i < n; i += globalThreads()) {
        float gi = __fmul_rn(g[i], scale);
        float mi = __fadd_rn(__fmul_rn(beta1, m[i]), __fmul_rn(rest1, gi));
        float vi = __fadd_rn(__fmul_rn(beta2, v[i]), __fmul_rn(rest2, __fmul_rn(gi, gi)));
        float denom = __fadd_rn(__fmul_rn(__fsqrt_rn(vi), invBias), eps);
        m[i] = mi;
        v[i] = vi;
        w[i] = __fsub_rn(__fmul_rn(w[i], decay), __fdiv_rn(__fmul_rn(step, mi), denom));
    }
}
