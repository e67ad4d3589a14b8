// One step of the GRU, between matmuls by cuBLAS; pkg/model/kernel, GRUForward and
// GRUBackward, has the equations. A thread computes one unit of one row.

KERNEL(256) gru_gates_forward(int n, int hidden, const float* gi, const int* ids, const float* gh,
                              const float* bih, const float* bhh, const float* h, float* out, float* save, float* before) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= hidden) return;
    float br = bih[j] + bhh[j], bz = bih[hidden + j] + bhh[hidden + j], bn = bih[2 * hidden + j], bnh = bhh[2 * hidden + j];
    for (int i = blockIdx.y; i < n; i += gridDim.y) {
        const float* x = gi + (long long)(ids ? ids[i] : i) * 3 * hidden + j;
        const float* y = gh + (long long)i * 3 * hidden + j;
        long long at = (long long)i * hidden + j;
        float old = h[at];
        float r = sigmoid(x[0] + y[0] + br);
        float z = sigmoid(x[hidden] + y[hidden] + bz);
        float ghn = y[2 * hidden] + bnh;
        float c = tanhf(r * ghn + x[2 * hidden] + bn);
        out[at] = z * (old - c) + c;
        if (before) before[at] = old;
        if (save) {
            float* s = save + (long long)i * 4 * hidden + j;
            s[0] = r;
            s[hidden] = z;
            s[2 * hidden] = c;
            s[3 * hidden] = ghn;
        }
    }
}

KERNEL(256) gru_gates_backward(int n, int hidden, float* carry, const float* dout, const float* before, float* gates, float* dgh) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= hidden) return;
    for (int i = blockIdx.y; i < n; i += gridDim.y) {
        long long at = (long long)i * hidden + j;
        float* s = gates + (long long)i * 4 * hidden + j;
        float* d = dgh + (long long)i * 3 * hidden + j;
        float r = s[0], z = s[hidden], c = s[2 * hidden], ghn = s[3 * hidden];
        float g = carry[at] + dout[at];
        float dan = g * (1 - z) * (1 - c * c);
        float daz = g * (before[at] - c) * (z * (1 - z));
        float dar = dan * ghn * (r * (1 - r));
        s[0] = dar;
        s[hidden] = daz;
        s[2 * hidden] = dan;
        s[3 * hidden] = dan * r;
        d[0] = dar;
        d[hidden] = daz;
        d[2 * hidden] = dan * r;
        carry[at] = g * z;
    }
}
