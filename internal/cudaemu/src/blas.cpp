// libcublas.so.12 on a CPU: column-major matmuls in the stream's order. Sums are
// float32; operands are rounded to 11 bits (tf32) or 8 (bf16).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

typedef std::function<int()> Work;
extern "C" int cudaemu_submit(void* stream, Work* work);

// Bits of float32's fraction that the operands lose.
enum Lost { NONE = 0, TF32 = 13, BF16 = 16 };

struct Handle {
    void* stream = nullptr;
    Lost lost = NONE;
};

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };

struct Shape {
    int ta, tb, m, n, k;
    const float* a;
    int lda;
    const float* b;
    int ldb;
    float* c;
    int ldc;
    bool halves = false; // a and b hold bfloat16
};

static bool fits(const Shape& s) {
    auto atLeast = [](int ld, int rows) { return ld >= (rows > 1 ? rows : 1); };
    return s.m >= 0 && s.n >= 0 && s.k >= 0 && s.ta >= 0 && s.ta <= 2 && s.tb >= 0 && s.tb <= 2 &&
           atLeast(s.lda, s.ta ? s.k : s.m) && atLeast(s.ldb, s.tb ? s.n : s.k) && atLeast(s.ldc, s.m);
}

static float rounded(float x, Lost lost) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (lost == NONE || (u & 0x7f800000) == 0x7f800000) return x;
    uint32_t half = 1u << (lost - 1), odd = u >> lost & 1;
    u = (u + half - 1 + odd) >> lost << lost; // ties to even
    memcpy(&x, &u, sizeof x);
    return x;
}

// widened returns a matrix of bfloat16 (columns of rows numbers, ld apart) in float32.
static std::vector<float> widened(const void* x, int rows, int columns, int ld) {
    std::vector<float> y((size_t)columns * ld);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) {
            uint32_t bits = (uint32_t)((const uint16_t*)x)[(size_t)j * ld + i] << 16;
            memcpy(&y[(size_t)j * ld + i], &bits, sizeof bits);
        }
    return y;
}

// matmul is C = alpha·op(A)·op(B) + beta·C; C is not read if beta is 0.
static void matmul(const Shape& s, float alpha, float beta, Lost lost) {
    std::vector<float> column(s.m);
    for (int j = 0; j < s.n; j++) {
        column.assign(s.m, 0);
        for (int p = 0; p < s.k; p++) {
            float b = rounded(s.tb ? s.b[(size_t)p * s.ldb + j] : s.b[(size_t)j * s.ldb + p], lost);
            const float* a = s.ta ? s.a + p : s.a + (size_t)p * s.lda;
            size_t step = s.ta ? s.lda : 1;
            if (lost == NONE)
                for (int i = 0; i < s.m; i++) column[i] += a[i * step] * b;
            else
                for (int i = 0; i < s.m; i++) column[i] += rounded(a[i * step], lost) * b;
        }
        float* c = s.c + (size_t)j * s.ldc;
        for (int i = 0; i < s.m; i++) c[i] = alpha * column[i] + (beta == 0 ? 0.0f : beta * c[i]);
    }
}

static int submit(Handle* h, const Shape& s, const float* alpha, const float* beta, long long sa, long long sb, long long sc, int count,
                  Lost lost) {
    if (!h) return NOT_INITIALIZED;
    if (!fits(s) || !alpha || !beta || count < 0) return INVALID_VALUE;
    float a = *alpha, b = *beta;
    Work w = [=] {
        for (int i = 0; i < count; i++) {
            Shape t = s;
            t.a += i * sa;
            t.b += i * sb;
            t.c += i * sc;
            if (t.halves) {
                auto wideA = t.ta ? widened(t.a, t.k, t.m, t.lda) : widened(t.a, t.m, t.k, t.lda);
                auto wideB = t.tb ? widened(t.b, t.n, t.k, t.ldb) : widened(t.b, t.k, t.n, t.ldb);
                t.a = wideA.data();
                t.b = wideB.data();
                matmul(t, a, b, lost);
                continue;
            }
            matmul(t, a, b, lost);
        }
        return 0;
    };
    return cudaemu_submit(h->stream, &w) ? EXECUTION_FAILED : SUCCESS;
}

extern "C" {
int cublasCreate_v2(Handle** h) { return *h = new Handle, SUCCESS; }
int cublasDestroy_v2(Handle* h) { return delete h, SUCCESS; }
int cublasSetStream_v2(Handle* h, void* stream) { return h->stream = stream, SUCCESS; }
int cublasSetWorkspace_v2(Handle*, void*, size_t) { return SUCCESS; }
int cublasSetMathMode(Handle* h, int mode) { return h->lost = mode == 3 ? TF32 : NONE, SUCCESS; }
int cublasSetAtomicsMode(Handle*, int) { return SUCCESS; }
int cublasSetPointerMode_v2(Handle*, int mode) { return mode == 0 ? SUCCESS : NOT_SUPPORTED; }
int cublasGetVersion_v2(Handle*, int* v) { return *v = 120400, SUCCESS; }
const char* cublasGetStatusString(int r) {
    switch (r) {
    case SUCCESS: return "success";
    case NOT_INITIALIZED: return "the library was not initialized";
    case INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case NOT_SUPPORTED: return "the functionality requested is not supported";
    }
    return "unknown";
}
int cublasSgemm_v2(Handle* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                   const float* beta, float* c, int ldc) {
    return submit(h, {ta, tb, m, n, k, a, lda, b, ldb, c, ldc}, alpha, beta, 0, 0, 0, 1, h ? h->lost : NONE);
}
int cublasSgemmStridedBatched(Handle* h, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda, long long sa,
                              const float* b, int ldb, long long sb, const float* beta, float* c, int ldc, long long sc, int count) {
    return submit(h, {ta, tb, m, n, k, a, lda, b, ldb, c, ldc}, alpha, beta, sa, sb, sc, count, h ? h->lost : NONE);
}
// The operands are both float32 (type 0) or both bfloat16 (type 14), the result is float32.
int cublasGemmEx(Handle* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int aType, int lda, const void* b,
                 int bType, int ldb, const void* beta, void* c, int cType, int ldc, int compute, int) {
    if (aType != bType || cType || aType && aType != 14) return NOT_SUPPORTED;
    Shape s = {ta, tb, m, n, k, (const float*)a, lda, (const float*)b, ldb, (float*)c, ldc};
    s.halves = aType == 14;
    return submit(h, s, (const float*)alpha, (const float*)beta, 0, 0, 0, 1,
                  compute == 75 ? BF16 : compute == 77 ? TF32 : s.halves || !h ? NONE : h->lost);
}
}
