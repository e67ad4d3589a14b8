// Heads: a warp for each row.

// writeHead writes the results of row i with its target's logit x.
DEVICE void writeHead(int i, float x, Softmax s, float inv, float* logp, float* entropy, float* stats) {
    float logSum = logf(s.sum);
    logp[i] = (x - s.top) * inv - logSum;
    entropy[i] = logSum - s.dot / s.sum;
    if (stats) {
        stats[2 * i] = s.top;
        stats[2 * i + 1] = logSum;
    }
}

// HeadGrad is the gradient of the logits of a row.
struct HeadGrad {
    float inv, top, logSum, entropy, g, ge; // g, ge: inv times the gradients of log-probability and entropy
    int target;
    __device__ __forceinline__ HeadGrad(int i, float inv, const int* targets, const float* stats, const float* entropy,
                                        const float* dlogp, const float* dentropy)
        : inv(inv), top(stats[2 * i]), logSum(stats[2 * i + 1]), entropy(entropy[i]), g(inv * dlogp[i]),
          ge(dentropy ? inv * dentropy[i] : 0.0f), target(targets[i]) {}
    // of logit j, which is x
    __device__ __forceinline__ float operator()(int j, float x) const {
        float lp = (x - top) * inv - logSum, p = expf(lp);
        float d = -p * (g + ge * (fmaxf(lp, EXP_MIN) + entropy));
        return j == target ? d + g : d;
    }
};

KERNEL(256) head_forward(int rows, int vocab, const float* logits, const float* bias, float inv,
                         const int* targets, float* logp, float* entropy, float* stats) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    Logits row = {logits + (long long)i * vocab, bias};
    Softmax s = rowSoftmax(row, vocab, inv, lane);
    if (lane != 0) return;
    writeHead(i, row(targets[i]), s, inv, logp, entropy, stats);
}

KERNEL(256) head_backward(int rows, int vocab, float* logits, const float* bias, float inv, const int* targets,
                          const float* stats, const float* entropy, const float* dlogp, const float* dentropy) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    float* x = logits + (long long)i * vocab;
    Logits row = {x, bias};
    HeadGrad grad(i, inv, targets, stats, entropy, dlogp, dentropy);
    for (int j = lane; j < vocab; j += 32) x[j] = grad(j, row(j));
}

KERNEL(256) value_forward(int rows, int hidden, const float* x, const float* w, const float* bias, float* v) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    const float* row = x + (long long)i * hidden;
    float sum = 0;
    for (int k = lane; k < hidden; k += 32) sum += row[k] * w[k];
    sum = warpSum(sum);
    if (lane == 0) v[i] = sum + bias[0];
}

KERNEL(256) value_backward(int rows, int hidden, const float* dv, const float* w, float* dx) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    for (int k = lane; k < hidden; k += 32) dx[(long long)i * hidden + k] = dv[i] * w[k];
}
