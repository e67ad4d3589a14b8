// pkg/rl's policy loss of tokens that need nothing but themselves and their
// row: see policyTerm there. An advantage of 0 gives exactly 0.

struct Term {
    double value, gradient, ratio;
    bool low, high;
};

DEVICE Term policyTerm(int kind, double logp, double logRatio, double a, double low, double high) {
    Term t = {0, 0, exp(logRatio), false, false};
    if (a == 0) return t;
    if (kind == 0) {
        t.value = -a * logp;
        t.gradient = -a;
        return t;
    }
    double r = t.ratio;
    t.value = t.gradient = -r * a;
    if (kind == 2) {
        double bound = r < low ? low : r > high ? high : r;
        if (bound * a < r * a) {
            t.value = -bound * a;
            t.gradient = 0;
        }
        t.low = a < 0 && r < low;
        t.high = a > 0 && r > high;
    }
    return t;
}

KERNEL(256) policy_loss(int kind, const int* active, const int* offset, int steps, const float* logp, const float* old,
                        const float* advantage, const float* weight, float low, float high, float* dlogp, double* parts) {
    double* shared = (double*)SHARED_MEMORY;
    int rank = blockIdx.x * blockDim.x + threadIdx.x, step = blockIdx.y;
    double sums[4] = {0, 0, 0, 0};
    if (rank < active[step]) {
        int at = offset[step] + rank;
        double w = weight[rank], lp = logp[at];
        Term t = policyTerm(kind, lp, old ? lp - old[at] : 0.0, advantage[rank], 1 - (double)low, 1 + (double)high);
        dlogp[at] = (float)(w * t.gradient);
        sums[0] = w * t.value;
        sums[1] = t.low;
        sums[2] = t.high;
        sums[3] = t.ratio;
    }
    for (int k = 0; k < 4; k++) {
        double sum = blockSum(sums[k], shared);
        if (threadIdx.x == 0) parts[4 * (blockIdx.y * gridDim.x + blockIdx.x) + k] = sum;
    }
}
