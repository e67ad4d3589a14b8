// The parts of a decoder's layer between its matmuls. Threads handle four neighbouring
// elements of a row at a time.

struct alignas(16) Quad {
    float v[4];
};

DEVICE Quad operator*(Quad a, Quad b) { return {a.v[0] * b.v[0], a.v[1] * b.v[1], a.v[2] * b.v[2], a.v[3] * b.v[3]}; }
DEVICE Quad operator*(float a, Quad b) { return {a * b.v[0], a * b.v[1], a * b.v[2], a * b.v[3]}; }
DEVICE Quad operator+(Quad a, Quad b) { return {a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}; }
DEVICE Quad operator-(Quad a, Quad b) { return {a.v[0] - b.v[0], a.v[1] - b.v[1], a.v[2] - b.v[2], a.v[3] - b.v[3]}; }
DEVICE float sumOf(Quad a) { return a.v[0] + a.v[1] + a.v[2] + a.v[3]; }

// wholeQuads reports whether rows that are ld apart consist of aligned quads.
DEVICE bool wholeQuads(const void* x, int width, int ld) { return (unsigned long long)x % 16 == 0 && width % 4 == 0 && ld % 4 == 0; }

// A row may end before the quad: left elements remain. whole is that of wholeQuads. The
// arithmetic does not depend on it, so alignment does not change a sum's order.
DEVICE Quad loadQuad(const float* x, int left, bool whole) {
    if (whole) return *(const Quad*)x;
    Quad q = {0, 0, 0, 0};
    for (int k = 0; k < 4; k++)
        if (k < left) q.v[k] = x[k];
    return q;
}

DEVICE void storeQuad(float* x, Quad q, int left, bool whole) {
    if (whole) {
        *(Quad*)x = q;
        return;
    }
    for (int k = 0; k < 4; k++)
        if (k < left) x[k] = q.v[k];
}

// Place is the row and the quad of a thread, in launches where each thread has one. The
// blocks of a row follow each other.
struct Place {
    int row, quad;
};

DEVICE Place placeOf(int quads) {
    int parts = (quads + blockDim.x - 1) / blockDim.x;
    return {(int)(blockIdx.x / parts), (int)(blockIdx.x % parts * blockDim.x + threadIdx.x)};
}

// rowSums sums a and b over the threads of a row: blockDim.x, a multiple of 32. Either
// that is one warp, or all warps of the block (at most 8) have the same row.
DEVICE void rowSums(float& a, float& b, float* shared) {
    a = warpSum(a);
    b = warpSum(b);
    if (blockDim.x == 32) return;
    int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (threadIdx.x % 32 == 0) {
        shared[2 * warp] = a;
        shared[2 * warp + 1] = b;
    }
    __syncthreads();
    a = b = 0;
    for (int i = 0; i < warps; i++) {
        a += shared[2 * i];
        b += shared[2 * i + 1];
    }
    __syncthreads();
}

// vectorAt is where vector r begins: a row has per vectors of width elements.
DEVICE long long vectorAt(int r, int per, int width, int ld) { return (long long)(r / per) * ld + r % per * width; }

KERNEL(256) rms_norm(int rows, int per, int width, const float* x, int ldx, const float* w, float eps, float* y, int ldy) {
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    const float* from = x + vectorAt(r, per, width, ldx);
    float* to = y + vectorAt(r, per, width, ldy);
    bool whole = wholeQuads(x, width, ldx) && wholeQuads(y, width, ldy) && wholeQuads(w, width, 0);
    int first = 4 * threadIdx.x, step = 4 * blockDim.x;
    float square = 0, none = 0;
    for (int j = first; j < width; j += step) {
        Quad v = loadQuad(from + j, width - j, whole);
        square += sumOf(v * v);
    }
    rowSums(square, none, (float*)SHARED_MEMORY);
    float rstd = 1.0f / sqrtf(square / width + eps);
    for (int j = first; j < width; j += step) {
        Quad v = loadQuad(from + j, width - j, whole), scale = loadQuad(w + j, width - j, whole);
        storeQuad(to + j, rstd * v * scale, width - j, whole);
    }
}

// Shared memory: 16 floats for rowSums, then the gradient of w of each of the block's
// rows of threads. A thread owns its columns there.
KERNEL(256) rms_norm_backward(int rows, int per, int width, const float* x, int ldx, const float* w, float eps,
                              const float* dy, int lddy, float* dx, int lddx, int accumulate, int chunk, float* parts) {
    float* shared = (float*)SHARED_MEMORY;
    int stride = (width + 3) / 4 * 4;
    float* dws = shared + 16;
    float* dw = dws + threadIdx.y * stride;
    bool whole = wholeQuads(x, width, ldx) && wholeQuads(dy, width, lddy) && wholeQuads(dx, width, lddx) && wholeQuads(w, width, 0);
    int first = 4 * threadIdx.x, step = 4 * blockDim.x;
    if (parts)
        for (int j = first; j < width; j += step) *(Quad*)(dw + j) = {0, 0, 0, 0};
    int from = blockIdx.x * chunk, to = min(rows, from + chunk);
    for (int r = from + threadIdx.y; r < to; r += blockDim.y) {
        const float* xr = x + vectorAt(r, per, width, ldx);
        const float* dyr = dy + vectorAt(r, per, width, lddy);
        float* dxr = dx + vectorAt(r, per, width, lddx);
        float square = 0, dot = 0;
        for (int j = first; j < width; j += step) {
            Quad v = loadQuad(xr + j, width - j, whole), g = loadQuad(dyr + j, width - j, whole);
            square += sumOf(v * v);
            dot += sumOf(g * loadQuad(w + j, width - j, whole) * v);
        }
        rowSums(square, dot, shared);
        float rstd = 1.0f / sqrtf(square / width + eps), c = dot / width * rstd * rstd;
        for (int j = first; j < width; j += step) {
            Quad v = loadQuad(xr + j, width - j, whole), g = loadQuad(dyr + j, width - j, whole);
            if (parts) *(Quad*)(dw + j) = *(Quad*)(dw + j) + rstd * v * g;
            Quad d = rstd * (g * loadQuad(w + j, width - j, whole) - c * v);
            if (accumulate) d = d + loadQuad(dxr + j, width - j, whole);
            storeQuad(dxr + j, d, width - j, whole);
        }
    }
    if (!parts) return;
    __syncthreads();
    for (int j = threadIdx.y * blockDim.x + threadIdx.x; j < width; j += blockDim.x * blockDim.y) {
        float sum = 0;
        for (int i = 0; i < blockDim.y; i++) sum += dws[i * stride + j];
        parts[(long long)blockIdx.x * width + j] = sum;
    }
}

KERNEL(256) rope(int rows, int heads, int dim, float* x, int ldx, const float* cosines, const float* sines, float sign) {
    int half = dim / 2, ofHead = (half + 3) / 4;
    Place p = placeOf(heads * ofHead);
    if (p.quad >= heads * ofHead) return;
    int j = p.quad % ofHead * 4, left = half - j;
    float* a = x + (long long)p.row * ldx + p.quad / ofHead * dim + j;
    float* b = a + half;
    long long at = (long long)p.row * half + j;
    bool whole = wholeQuads(x, half, ldx) && wholeQuads(cosines, half, half) && wholeQuads(sines, half, half);
    Quad u = loadQuad(a, left, whole), v = loadQuad(b, left, whole);
    Quad c = loadQuad(cosines + at, left, whole), s = sign * loadQuad(sines + at, left, whole);
    storeQuad(a, u * c - v * s, left, whole);
    storeQuad(b, v * c + u * s, left, whole);
}

KERNEL(256) add_rows(int rows, int width, float* x, int ldx, const float* bias) {
    Place p = placeOf((width + 3) / 4);
    int j = 4 * p.quad, left = width - j;
    if (left <= 0) return;
    float* to = x + (long long)p.row * ldx + j;
    bool whole = wholeQuads(x, width, ldx) && wholeQuads(bias, width, 0);
    storeQuad(to, loadQuad(to, left, whole) + loadQuad(bias + j, left, whole), left, whole);
}

KERNEL(256) swiglu(int rows, int ffn, const float* gateUp, float* out) {
    Place p = placeOf((ffn + 3) / 4);
    int j = 4 * p.quad, left = ffn - j;
    if (left <= 0) return;
    const float* gate = gateUp + 2 * (long long)p.row * ffn + j;
    bool whole = wholeQuads(gateUp, ffn, ffn) && wholeQuads(out, ffn, ffn);
    Quad g = loadQuad(gate, left, whole), u = loadQuad(gate + ffn, left, whole);
    for (int k = 0; k < 4; k++) g.v[k] *= sigmoid(g.v[k]) * u.v[k];
    storeQuad(out + (long long)p.row * ffn + j, g, left, whole);
}

KERNEL(256) swiglu_backward(int rows, int ffn, float* gateUp, const float* da) {
    Place p = placeOf((ffn + 3) / 4);
    int j = 4 * p.quad, left = ffn - j;
    if (left <= 0) return;
    float* gate = gateUp + 2 * (long long)p.row * ffn + j;
    bool whole = wholeQuads(gateUp, ffn, ffn) && wholeQuads(da, ffn, ffn);
    Quad g = loadQuad(gate, left, whole), u = loadQuad(gate + ffn, left, whole);
    Quad d = loadQuad(da + (long long)p.row * ffn + j, left, whole);
    for (int k = 0; k < 4; k++) {
        float s = sigmoid(g.v[k]), gs = g.v[k] * s;
        g.v[k] = d.v[k] * u.v[k] * s * (1 + g.v[k] * (1 - s));
        u.v[k] = d.v[k] * gs;
    }
    storeQuad(gate, g, left, whole);
    storeQuad(gate + ffn, u, left, whole);
}

struct alignas(8) QuadBF16 {
    unsigned short v[4];
};

// roundBF16 rounds to nearest, ties to even; a NaN stays one.
DEVICE unsigned short roundBF16(float x) {
    unsigned b = __float_as_uint(x);
    if (x != x) return b >> 16 | 0x40;
    return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

KERNEL(256) to_bf16(long long n, const float* x, unsigned short* y) {
    long long i = 4 * globalThread();
    if (i >= n) return;
    if (i + 4 <= n && (unsigned long long)x % 16 == 0 && (unsigned long long)y % 8 == 0) {
        Quad q = *(const Quad*)(x + i);
        *(QuadBF16*)(y + i) = {roundBF16(q.v[0]), roundBF16(q.v[1]), roundBF16(q.v[2]), roundBF16(q.v[3])};
        return;
    }
    for (long long k = i; k < min(n, i + 4); k++) y[k] = roundBF16(x[k]);
}

// A thread loads 8 rows ahead of the additions.
KERNEL(256) sum_rows(int count, int width, const int* targets, const int* from, const int* order, const float* x, int ldx,
                     float* out, int ldo, int accumulate) {
    Place p = placeOf((width + 3) / 4);
    int column = 4 * p.quad, left = width - column;
    if (left <= 0) return;
    bool whole = wholeQuads(x, width, ldx) && wholeQuads(out, width, ldo);
    float* to = out + (long long)targets[p.row] * ldo + column;
    const float* at = x + column;
    Quad sum = {0, 0, 0, 0};
    if (accumulate) sum = loadQuad(to, left, whole);
    int i = from[p.row], end = from[p.row + 1];
    for (; i + 8 <= end; i += 8) {
        Quad rows[8];
#pragma unroll
        for (int k = 0; k < 8; k++) rows[k] = loadQuad(at + (long long)order[i + k] * ldx, left, whole);
#pragma unroll
        for (int k = 0; k < 8; k++) sum = sum + rows[k];
    }
    for (; i < end; i++) sum = sum + loadQuad(at + (long long)order[i] * ldx, left, whole);
    storeQuad(to, sum, left, whole);
}

KERNEL(256) copy_columns(int rows, int width, const float* x, int ldx, float* y, int ldy) {
    Place p = placeOf((width + 3) / 4);
    int j = 4 * p.quad, left = width - j;
    if (left <= 0) return;
    bool whole = wholeQuads(x, width, ldx) && wholeQuads(y, width, ldy);
    storeQuad(y + (long long)p.row * ldy + j, loadQuad(x + (long long)p.row * ldx + j, left, whole), left, whole);
}

KERNEL(256) gather_shifted(int n, int width, const int* index, const int* shift, const float* x, float* y) {
    const float* from = x + (long long)(index[blockIdx.x] + shift[0]) * width;
    float* to = y + (long long)blockIdx.x * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x) to[j] = from[j];
}
