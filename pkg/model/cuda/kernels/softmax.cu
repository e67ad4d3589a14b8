// The softmax of a row of logits, computed by a warp.

// Logits in the registers of a lane: vocabularies up to 32·8 are read once.
#define HELD 8

// Logits reads a row and adds the bias, if there is one.
struct Logits {
    const float* x;
    const float* bias; // or NULL
    __device__ __forceinline__ float operator()(int j) const { return bias ? x[j] + bias[j] : x[j]; }
};

struct Softmax {
    float top, sum, dot; // max x, Σ e^z, Σ e^z·z with z = (x-top)·inv
};

// rowSoftmax keeps a row of n logits in registers if they fit, and else uses an
// online softmax: when the running maximum grows, the sums are rescaled.
template <class Row> DEVICE Softmax rowSoftmax(Row row, int n, float inv, int lane) {
    Softmax s;
    if (n <= 32 * HELD) {
        float x[HELD];
        s.top = -infinity();
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            int j = lane + 32 * k;
            x[k] = j < n ? row(j) : -infinity();
            s.top = fmaxf(s.top, x[k]);
        }
        s.top = warpMax(s.top);
        s.sum = s.dot = 0;
#pragma unroll
        for (int k = 0; k < HELD; k++) {
            if (lane + 32 * k >= n) continue;
            float z = (x[k] - s.top) * inv, e = expf(z);
            s.sum += e;
            s.dot += e * fmaxf(z, EXP_MIN);
        }
    } else {
        float top = -infinity(), sum = 0, dot = 0;
        for (int j = lane; j < n; j += 32) {
            float x = row(j);
            if (x > top) {
                float shift = top > -infinity() ? (top - x) * inv : 0.0f, e = expf(shift);
                dot = e * (dot + shift * sum);
                sum *= e;
                top = x;
            }
            float z = x == -infinity() ? EXP_MIN : (x - top) * inv, e = expf(z);
            sum += e;
            dot += e * fmaxf(z, EXP_MIN);
        }
        s.top = warpMax(top);
        float shift = top > -infinity() ? (top - s.top) * inv : EXP_MIN, e = expf(shift);
        s.dot = e * (dot + fmaxf(shift, EXP_MIN) * sum);
        s.sum = e * sum;
    }
    s.sum = warpSum(s.sum);
    s.dot = warpSum(s.dot);
    return s;
}

