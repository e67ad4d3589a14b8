// Heads: a warp for each row.

KERNEL(256) head_forward(int rows, int vocab, const float* logits, const float* bias, float inv,
                         const int* targets, float* logp, float* entropy, float* stats) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    Logits row = {logits + (long long)i * vocab, bias};
    Softmax s = rowSoftmax(row, vocab, inv, lane);
    if (lane != 0) return;
    float logSum = logf(s.sum);
    logp[i] = (row(targets[i]) - s.top) * inv - logSum;
    entropy[i] = logSum - s.dot / s.sum;
    if (stats) {
        stats[2 * i] = s.top;
        stats[2 * i + 1] = logSum;
    }
}

KERNEL(256) head_backward(int rows, int vocab, float* logits, const float* bias, float inv, const int* targets,
                          const float* stats, const float* entropy, const float* dlogp, const float* dentropy) {
    int lane = threadIdx.x % 32, i = blockIdx.x * 8 + threadIdx.x / 32;
    if (i >= rows) return;
    float* x = logits + (long long)i * vocab;
    float top = stats[2 * i], logSum = stats[2 * i + 1];
    float g = inv * dlogp[i], ge = dentropy ? inv * dentropy[i] : 0.0f, h = entropy[i];
    int target = targets[i];
    for (int j = lane; j < vocab; j += 32) {
        float lp = (x[j] + bias[j] - top) * inv - logSum, p = expf(lp);
        float d = -p * (g + ge * (fmaxf(lp, EXP_MIN) + h));
        x[j] = j == target ? d + g : d;
    }
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
